package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

const (
	// cacheDelay is how long to wait for the cache to show a write. That usually takes a few milliseconds.
	cacheDelay = 20 * time.Millisecond
	// refusedDelay is how long to wait before a group that could not be synced with the engine is retried. goneDelay is
	// used instead if the cause is expected to disappear soon by itself.
	refusedDelay = 30 * time.Second
	goneDelay    = time.Second
	// waitingDelay is how often a waiting group is compared with the engine's group, since changes of the engine's group
	// do not requeue the queue.
	waitingDelay = time.Minute
	// maxForeign limits the statuses of foreign groups that a reconcile writes. The queue is requeued for the others.
	maxForeign = 100
)

// Names of the indices of the cache.
const (
	groupsByQueue = "spec.queue"
	podsByGroup   = v1beta1.LabelGroupName
	podsByQueue   = v1beta1.LabelQueue
)

// reconciler reconciles queues. It reconciles a queue together with all of its groups, because the groups share the
// quota.
type reconciler struct {
	client client.Client
	reader client.Reader // for live reads
	engine engine
	events events.EventRecorder
	clock  clock.PassiveClock
	writes writes
}

// NewReconciler returns the reconciler of Queues. Program runs it in a manager. It returns an error if the options do
// not name an engine.
func NewReconciler(cluster control.Cluster, options Options) (reconcile.Reconciler, error) {
	return newReconciler(cluster, options)
}

func newReconciler(cluster control.Cluster, options Options) (*reconciler, error) {
	e, err := newEngine(options.Engine, cluster.Client, cluster.APIReader, options.Clock)
	if err != nil {
		return nil, err
	}
	return &reconciler{
		client: cluster.Client, reader: cluster.APIReader, engine: e, events: cluster.Events, clock: options.Clock,
	}, nil
}

func (r *reconciler) setupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	err := errors.Join(
		mgr.GetFieldIndexer().IndexField(ctx, &v1beta1.PodGroup{}, groupsByQueue, func(object client.Object) []string {
			return []string{object.(*v1beta1.PodGroup).Spec.Queue} //nolint:forcetypeassert // only PodGroups are indexed
		}),
		mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, podsByGroup, func(object client.Object) []string {
			return []string{object.GetLabels()[v1beta1.LabelGroupName]}
		}),
		mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, podsByQueue, func(object client.Object) []string {
			return []string{object.GetLabels()[v1beta1.LabelQueue]}
		}),
	)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("queue").
		Watches(&v1beta1.Queue{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.PodGroup{}, handler.EnqueueRequestsFromMapFunc(queueOfGroup),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.queuesOfPod)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.queuesOfNamespace), builder.OnlyMetadata,
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(control.Options(workers)).
		Complete(r)
}

func request(queue string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: queue}}}
}

func queueOfGroup(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.(*v1beta1.PodGroup).Spec.Queue) //nolint:forcetypeassert // only PodGroups are watched with it
}

// queuesOfPod returns the queue of the pod's group and the queue that the pod's label names. The label counts if the
// group is gone or belongs to another queue.
func (r *reconciler) queuesOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if queue := pod.GetLabels()[v1beta1.LabelQueue]; queue != "" {
		requests = request(queue)
	}
	var group v1beta1.PodGroup
	key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[v1beta1.LabelGroupName]}
	// This runs in an informer, so it must not wait for a write of the group.
	if err := r.client.Get(ctx, key, &group, client.DisableReadYourWritesConsistency); err != nil {
		return requests // the watch event of a new group requeues its queue
	}
	return append(requests, request(group.Spec.Queue)...)
}

func (r *reconciler) queuesOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	var groups v1beta1.PodGroupList
	if err := r.client.List(ctx, &groups, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range groups.Items {
		requests = append(requests, request(groups.Items[i].Spec.Queue)...)
	}
	return requests
}

// Reconcile reconciles a queue and its groups. It returns an error if the queue must be retried.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	shown, err := r.writes.areShown(ctx, r.client, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !shown {
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	}
	view, err := r.observe(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	var limits []metav1.Condition
	if view.Queue != nil {
		limits = r.engine.queueLimits(view.Queue)
	}
	syncErr := r.sync(ctx, &view)
	d := plan(view, r.engine.gates(view.Queue), limits, r.clock.Now())
	err = errors.Join(syncErr, r.execute(ctx, &view, d))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: control.ConflictDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	view.requeueWithin(view.Blocker.RequeueAfter)
	view.requeueWithin(d.RequeueAfter)
	for _, status := range d.Groups {
		if !meta.IsStatusConditionTrue(status.Conditions, v1beta1.ConditionGroupScheduled) {
			view.requeueWithin(waitingDelay)
		}
	}
	return reconcile.Result{RequeueAfter: view.RequeueAfter}, nil
}

// observe returns a snapshot of a queue.
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
		g.Limits = r.engine.groupLimits(g)
		if view.Queue != nil {
			g.Class = r.engine.priorityClass(view.Queue, g.Group)
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
	blockers, err := r.engine.blockers(ctx, view.Groups)
	view.Blocker = blockers[""]
	for i := range view.Groups {
		b := blockers[view.Groups[i].Group.Namespace]
		view.Groups[i].Blocker = b.Message
		view.requeueWithin(b.RequeueAfter)
	}
	return view, err
}

// orphans returns the pods that hold a node or can be bound, have the label of the queue, are in a namespace that it
// selects, and whose group is gone. If a group of the same name exists in another queue now, the pods that this queue
// released still belong to this queue.
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
		if !mayHoldNode(pod) {
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

// sync creates or updates the engine's queue, and the engine's groups for the groups that can be admitted. A group is
// admitted only after that succeeded. A problem with one group does not block other groups. sync returns an error if
// the queue must be retried.
func (r *reconciler) sync(ctx context.Context, view *queueView) error {
	if view.Queue == nil || view.Blocker.Message != "" {
		return nil
	}
	err := r.engine.syncQueue(ctx, *view)
	if _, isRefused := errors.AsType[*report.RefusedError](err); isRefused || owned.IsRefused(err) {
		view.Blocker = newBlocker(err.Error())
		return nil
	}
	if err != nil {
		for i := range view.Groups {
			view.Groups[i].Unknown = true
		}
		return err
	}
	var errs []error
	for i := range view.Groups {
		g := &view.Groups[i]
		if view.admission(*g).Status != metav1.ConditionTrue {
			continue
		}
		isNewClass, err := g.Class.ensure(ctx, r.client, r.clock.Now())
		if err == nil {
			g.NeedsOneClass = r.engine.needsOneClass()
			g.ClassInForce, err = r.engine.syncGroup(ctx, g.Group, g.Pods, g.Class.Name)
		}
		if refused, ok := errors.AsType[*report.RefusedError](err); ok || owned.IsRefused(err) {
			g.Blocker = err.Error()
			g.WaitsForEarlier = ok && refused.Reason == v1beta1.ReasonEarlierGroup
			view.requeueWithin(refusedDelay)
			if isNewClass || g.WaitsForEarlier {
				view.requeueWithin(goneDelay)
			}
		} else if err != nil {
			g.Unknown = true
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// requeueWithin requeues the queue after the given time or sooner. 0 has no effect.
func (view *queueView) requeueWithin(d time.Duration) {
	if d > 0 && (view.RequeueAfter == 0 || d < view.RequeueAfter) {
		view.RequeueAfter = d
	}
}

// execute carries out a decision. An error with one group or pod does not block the others. Pods are released first and
// the statuses of foreign groups are written last, because any tenant can create groups that name the queue.
func (r *reconciler) execute(ctx context.Context, view *queueView, d decision) error {
	var errs []error
	for _, pod := range d.Release {
		errs = append(errs, r.release(ctx, view.Queue, pod))
	}
	for _, pod := range d.Expired {
		errs = append(errs, r.expire(ctx, view.Queue, pod))
	}
	var own, foreign []groupView
	for _, g := range view.Groups {
		switch {
		case g.Unknown || equality.Semantic.DeepEqual(g.Group.Status, d.Groups[g.key()]):
		case g.Selected:
			own = append(own, g)
		default:
			foreign = append(foreign, g)
		}
	}
	errs = append(errs, r.writeGroups(ctx, own, d), r.writeQueue(ctx, view.Queue, d.Queue))
	if len(foreign) > maxForeign {
		foreign = foreign[:maxForeign]
		view.requeueWithin(cacheDelay)
	}
	if err := r.writeGroups(ctx, foreign, d); err != nil { // a tenant could cause it, and delay the queue
		log.FromContext(ctx).Error(err, "Failed to update the statuses of groups that the queue does not select")
		view.requeueWithin(goneDelay)
	}
	return errors.Join(errs...)
}

func (r *reconciler) writeGroups(ctx context.Context, groups []groupView, d decision) error {
	var errs []error
	for _, g := range groups {
		errs = append(errs, r.writeGroup(ctx, g.Group, d.Groups[g.key()]))
	}
	return errors.Join(errs...)
}

func (r *reconciler) writeGroup(ctx context.Context, group *v1beta1.PodGroup, status v1beta1.PodGroupStatus) error {
	before := group.DeepCopy()
	group.Status = status
	err := control.PatchStatus(ctx, r.client, before, group)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of podgroup %s/%s: %w", group.Namespace, group.Name, err)
	}
	if err == nil {
		r.writes.note(group.Spec.Queue, &v1beta1.PodGroup{}, before, group)
		logChanges(log.FromContext(ctx).WithValues("podGroup", client.ObjectKeyFromObject(group)), before.Status.Conditions,
			status.Conditions)
	}
	return nil
}

func (r *reconciler) writeQueue(ctx context.Context, queue *v1beta1.Queue, status v1beta1.QueueStatus) error {
	if queue == nil || equality.Semantic.DeepEqual(queue.Status, status) {
		return nil
	}
	before := queue.DeepCopy()
	queue.Status = status
	err := control.PatchStatus(ctx, r.client, before, queue)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of queue %s: %w", queue.Name, err)
	}
	if err == nil {
		logChanges(log.FromContext(ctx), before.Status.Conditions, status.Conditions)
	}
	return nil
}

// logChanges logs the conditions whose status or reason has changed, except those that only show that a group is on the
// way to its nodes.
func logChanges(logger logr.Logger, before, after []metav1.Condition) {
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		isOnItsWay := c.Status == metav1.ConditionFalse &&
			(c.Reason == v1beta1.ReasonTooFewPods || c.Reason == v1beta1.ReasonScheduling)
		if isOnItsWay || c.Type == v1beta1.ConditionSufficientGroupMember || was != nil && was.Status == c.Status &&
			was.Reason == c.Reason {
			continue
		}
		logger.Info("ConditionChanged", "condition", c.Type, "status", c.Status, "reason", c.Reason)
	}
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
	control.Tell(ctx, r.events, pod, report.Event{
		Type: corev1.EventTypeWarning, Reason: v1beta1.EventMaxDuration, Action: "Delete",
		Message: fmt.Sprintf("the pod was deleted because maxDuration of Queue %s (%s) was exceeded", queue.Name,
			*queue.Spec.MaxDuration),
	}, "pod", client.ObjectKeyFromObject(pod), "maxDuration", *queue.Spec.MaxDuration)
	return nil
}
