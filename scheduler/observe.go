package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// observe returns a snapshot of a queue and its groups, without the objects of the engine.
func (r *reconciler) observe(ctx context.Context, name string) (queueView, error) {
	view := queueView{Queue: &v1beta1.Queue{}}
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, view.Queue)
	if client.IgnoreNotFound(err) != nil {
		return view, err
	}
	if err != nil || !view.Queue.DeletionTimestamp.IsZero() {
		view.Queue = nil
	}
	var groups v1beta1.PodGroupList
	if err := r.client.List(ctx, &groups, client.MatchingFields{groupsByQueue: name},
		client.DisableReadYourWritesConsistency); err != nil {
		return view, err
	}
	for i := range groups.Items {
		g := groupView{Group: &groups.Items[i]}
		if !g.Group.DeletionTimestamp.IsZero() {
			continue
		}
		var pods corev1.PodList
		err := r.client.List(ctx, &pods, client.InNamespace(g.Group.Namespace), client.MatchingFields{
			podsByGroup: g.Group.Name,
		},
			client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
		if err != nil {
			return view, err
		}
		for j := range pods.Items {
			g.Pods = append(g.Pods, &pods.Items[j])
		}
		if g.Selected, err = r.selects(ctx, view.Queue, g.Group.Namespace); err != nil {
			return view, err
		}
		view.Groups = append(view.Groups, g)
	}
	if view.Orphans, err = r.orphans(ctx, view); err != nil {
		return view, err
	}
	if err := r.countDevices(ctx, &view); err != nil {
		return view, err
	}
	isServed, err := r.isServed()
	if !isServed {
		view.Blocker = newBlocker(r.engine.notServed(), r.clock.Now())
	}
	return view, err
}

// isServed reports whether the API server serves the groups of the engine.
func (r *reconciler) isServed() (bool, error) {
	kind, err := r.client.GroupVersionKindFor(r.engine.newGroup())
	if err != nil {
		return false, err
	}
	_, err = r.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// observeEngine reads objects of the engine into the view: the queue, the groups, and the PriorityClasses of the
// groups.
func (r *reconciler) observeEngine(ctx context.Context, view *queueView) (err error) {
	if view.Blocker.Message != "" {
		return nil
	}
	view.Classes = map[string]*schedulingv1.PriorityClass{}
	for i := range view.Groups {
		g := &view.Groups[i]
		if !g.Selected || view.Queue.Spec.Closed {
			continue // the group is not admitted, whatever the engine has
		}
		if g.There, err = r.find(ctx, client.ObjectKeyFromObject(g.Group), r.engine.newGroup()); err != nil {
			return err
		}
		name := r.engine.priorityClass(view.Queue, g.Group).Name
		if _, isRead := view.Classes[name]; isRead {
			continue
		}
		there, err := r.find(ctx, client.ObjectKey{Name: name}, &schedulingv1.PriorityClass{})
		if err != nil {
			return err
		}
		view.Classes[name], _ = there.(*schedulingv1.PriorityClass)
	}
	if empty := r.engine.newQueue(); empty != nil && view.Queue != nil {
		if view.There, err = r.find(ctx, client.ObjectKeyFromObject(view.Queue), empty); err != nil {
			return err
		}
		if view.Nodes, err = resourcesOfNodes(ctx, r.client); err != nil {
			return err
		}
	}
	view.block(r.engine.blockers(view.Groups, r.clock.Now()))
	return nil
}

// find reads an object into the given empty object, which it returns. It returns nil if the object does not exist.
func (r *reconciler) find(ctx context.Context, key client.ObjectKey, empty object) (object, error) {
	if err := r.client.Get(ctx, key, empty); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return empty, nil
}

// orphans returns the pods that count against the quota of the queue, although no group of the queue has them. An
// orphan has the label of the queue and is in a namespace that the queue selects. It holds resources of a node or can
// be bound at any time. Its group is gone or belongs to another queue now. If its group belongs to another queue, the
// pod is an orphan only if it was released, because its release used quota of this queue.
func (r *reconciler) orphans(ctx context.Context, view queueView) ([]*corev1.Pod, error) {
	if view.Queue == nil {
		return nil, nil
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.MatchingFields{podsByQueue: view.Queue.Name},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, err
	}
	var orphans []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !mayOccupyNode(pod) {
			continue
		}
		group := &v1beta1.PodGroup{}
		key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1beta1.LabelGroupName]}
		err := r.client.Get(ctx, key, group, client.DisableReadYourWritesConsistency)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && (group.Spec.Queue == view.Queue.Name || !wasReleased(pod)) {
			continue
		}
		selected, err := r.selects(ctx, view.Queue, pod.Namespace)
		if err != nil {
			return nil, err
		}
		if selected {
			orphans = append(orphans, pod)
		}
	}
	return orphans, nil
}

// selects reports whether a queue selects a namespace.
func (r *reconciler) selects(ctx context.Context, queue *v1beta1.Queue, name string) (bool, error) {
	if queue == nil || queue.Spec.NamespaceSelector == nil {
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(queue.Spec.NamespaceSelector)
	if err != nil {
		return false, nil //nolint:nilerr // the API server rejects invalid selectors
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return selector.Matches(labels.Set(namespace.Labels)), nil
}

// resourcesOfNodes returns the sum of the allocatable resources of all nodes.
func resourcesOfNodes(ctx context.Context, c client.Client) (corev1.ResourceList, error) {
	var nodes corev1.NodeList
	err := c.List(ctx, &nodes, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, fmt.Errorf("listing nodes for their allocatable resources: %w", err)
	}
	var total corev1.ResourceList
	for i := range nodes.Items {
		total = add(total, nodes.Items[i].Status.Allocatable)
	}
	return total, nil
}
