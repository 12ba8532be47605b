package scheduler

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// ensure writes what the engine must have for a queue and its groups, and adds the results to the view.
func (r *reconciler) ensure(ctx context.Context, view *queueView) {
	e := ensure(r.engine, *view, r.clock.Now())
	r.writeEngine(ctx, *view, e)
	view.Failed = view.settle(e, r.clock.Now())
}

// writeEngine writes the changes that are needed, and records the errors of the writes in e. A problem with one group
// does not block other groups.
func (r *reconciler) writeEngine(ctx context.Context, view queueView, e *engineChanges) {
	if e.QueueErr == nil {
		e.QueueErr = asRefused(r.writeEngineQueue(ctx, view.Queue, e))
	}
	if e.QueueErr != nil {
		return
	}
	created := map[string]error{}
	for i := range e.Groups {
		c := &e.Groups[i]
		c.Err = asRefused(r.writeEngineGroup(ctx, view.Groups[i].Group, c, created))
	}
}

// asRefused returns an error as a *report.RefusedError if a retry will not help. It returns other errors unchanged.
func asRefused(err error) error {
	if owned.IsRefused(err) {
		return &report.RefusedError{Reason: v1beta1.ReasonEngineNotReady, Err: err}
	}
	return err
}

func (r *reconciler) writeEngineQueue(ctx context.Context, queue *v1beta1.Queue, e *engineChanges) error {
	switch c := e.Queue; {
	case !c.isNeeded():
	case c.Before == nil:
		if err := owned.Create(ctx, r.client, r.reader, queue, "the Queue", c.After); err != nil {
			return err
		}
	default:
		if err := r.client.Patch(ctx, c.After, client.MergeFrom(c.Before)); err != nil {
			return fmt.Errorf("updating queue %s of the engine: %w", queue.Name, err)
		}
	}
	if c := e.QueueState; c.isNeeded() {
		if err := r.client.Status().Patch(ctx, c.After, client.MergeFrom(c.Before)); err != nil {
			return fmt.Errorf("setting the state of queue %s of the engine: %w", queue.Name, err)
		}
	}
	return nil
}

// writeEngineGroup creates the PriorityClass of a group if necessary, and then creates or updates the engine's group.
// The map has the result of each creation in this reconcile, by the name of the PriorityClass. So a class of several
// groups is created only once.
func (r *reconciler) writeEngineGroup(
	ctx context.Context, group *v1beta1.PodGroup, c *groupChange, created map[string]error,
) error {
	if class := c.NewClass; class != nil {
		err, isCreated := created[class.Name]
		if !isCreated {
			err = client.IgnoreAlreadyExists(r.client.Create(ctx, class))
			created[class.Name] = err
		}
		if err != nil {
			c.IsClassNew = false
			return fmt.Errorf("creating PriorityClass %s: %w", class.Name, err)
		}
	}
	switch {
	case c.Err != nil || !c.isNeeded():
		return c.Err
	case c.Before == nil:
		return owned.Create(ctx, r.client, r.reader, group, "the PodGroup", c.After)
	}
	if err := loop.Patch(ctx, r.client, c.Before, c.After); err != nil {
		return fmt.Errorf("updating podgroup %s of the engine: %w", group.Name, err)
	}
	return nil
}

// maxForeign is the maximum number of statuses of foreign groups that one reconcile writes. Foreign groups are in
// namespaces that the queue does not select. If more statuses must be written, the queue is requeued.
const maxForeign = 100

// execute carries out a decision. An error with one group or pod does not block the others. Pods are released first,
// and the statuses of foreign groups are written last: any tenant can create many groups that name the queue, and
// they must not delay the queue.
func (r *reconciler) execute(ctx context.Context, view queueView, d decision) (loop.Requeue, error) {
	requeue := loop.Requeue{At: d.RequeueAt}
	errs := []error{view.Failed}
	for _, pod := range d.Release {
		errs = append(errs, r.release(ctx, view.Queue, pod))
	}
	for _, pod := range d.Expired {
		errs = append(errs, r.expire(ctx, view.Queue, pod))
	}
	var own, foreign []groupView
	for _, g := range view.Groups {
		status, isKnown := d.Groups[g.key()]
		switch {
		case !isKnown || equality.Semantic.DeepEqual(g.Group.Status, status):
		case g.Selected:
			own = append(own, g)
		default:
			foreign = append(foreign, g)
		}
	}
	errs = append(errs, r.writeGroups(ctx, own, d), r.writeQueue(ctx, view.Queue, d.Queue))
	if len(foreign) > maxForeign {
		foreign = foreign[:maxForeign]
		requeue.By(r.clock.Now().Add(cacheDelay))
	}
	if err := r.writeGroups(ctx, foreign, d); err != nil { // do not return err, so that no tenant can delay the queue
		log.FromContext(ctx).Error(err, "Failed to update the statuses of groups that the queue does not select")
		requeue.By(r.clock.Now().Add(goneDelay))
	}
	return requeue, errors.Join(errs...)
}

// release removes the gate of a pod and restricts the pod to the nodes of its queue. Both changes must be in the same
// write, because the API server allows changes of the node affinity only while a pod is gated.
func (r *reconciler) release(ctx context.Context, queue *v1beta1.Queue, pod *corev1.Pod) error {
	value := releasedValue(pod)
	if pod.Annotations[annotationAbridged] != "" {
		full := &corev1.Pod{}
		if err := r.reader.Get(ctx, client.ObjectKeyFromObject(pod), full); err != nil {
			return client.IgnoreNotFound(err)
		}
		if full.ResourceVersion != pod.ResourceVersion {
			return nil // the watch event of the change requeues the queue
		}
		pod = full
	}
	ungated := ungated(pod, queue, value)
	err := loop.Patch(ctx, r.client, pod, ungated)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.writes.note(queue.Name, &corev1.Pod{}, pod, ungated)
	return nil
}

// expire deletes a pod because maxDuration of its queue is exceeded.
func (r *reconciler) expire(ctx context.Context, queue *v1beta1.Queue, pod *corev1.Pod) error {
	err := r.client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID},
		client.DisableReadYourWritesConsistency)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	loop.Tell(ctx, r.events, pod, report.Event{
		Type: corev1.EventTypeWarning, Reason: v1beta1.EventMaxDuration, Action: "Delete",
		Message: fmt.Sprintf("the pod was deleted because maxDuration of Queue %s (%s) was exceeded", queue.Name,
			*queue.Spec.MaxDuration),
	}, "pod", client.ObjectKeyFromObject(pod), "maxDuration", *queue.Spec.MaxDuration)
	return nil
}
