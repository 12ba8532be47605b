package scheduler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/loop"
)

const (
	// cacheDelay is how long to wait for the cache to show a write. That usually takes a few milliseconds.
	cacheDelay = 20 * time.Millisecond
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

// NewReconciler returns the reconciler of Queues, which Program runs in a manager. NewReconciler returns an error if
// there is no engine with the name options.Engine.
func NewReconciler(cluster loop.Cluster, options Options) (reconcile.Reconciler, error) {
	return newReconciler(cluster, options)
}

func newReconciler(cluster loop.Cluster, options Options) (*reconciler, error) {
	e, err := newEngine(options.Engine)
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
		WithOptions(loop.Options(workers)).
		Complete(r)
}

func request(queue string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: queue}}}
}

func queueOfGroup(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.(*v1beta1.PodGroup).Spec.Queue) //nolint:forcetypeassert // only PodGroups are watched with it
}

// queuesOfPod returns requests for the queue of the pod's group and for the queue that the pod's label names. The
// label matters for orphans: their group is gone or belongs to another queue.
func (r *reconciler) queuesOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if queue := pod.GetLabels()[v1beta1.LabelQueue]; queue != "" {
		requests = request(queue)
	}
	var group v1beta1.PodGroup
	key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[v1beta1.LabelGroupName]}
	// The informer that calls this function would block if the read waited until the cache shows the controller's own
	// writes.
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

// Reconcile reconciles a queue and its groups. It returns an error if the queue must be retried with backoff.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	shown, err := r.writes.areShown(ctx, r.client, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !shown {
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	}
	cycle := loop.Cycle[queueView, decision]{
		Clock: r.clock,
		Observe: func(ctx context.Context) (queueView, error) {
			view, err := r.observe(ctx, request.Name)
			if err != nil {
				return view, err
			}
			if err := r.observeEngine(ctx, &view); err != nil {
				return view, err
			}
			r.ensure(ctx, &view) // the decision is about the state after these writes
			return view, nil
		},
		// The decision uses the current time, because the reads and writes before it can take long.
		Decide: func(view queueView) decision { return decide(r.engine, view, r.clock.Now()) },
		Act:    r.execute,
	}
	return cycle.Run(ctx)
}
