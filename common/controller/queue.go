package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// urgentPriority is the priority of jobs whose nodes might be idle. Jobs of this priority are reconciled before new
// jobs, which have priority 0. Jobs that exist when the controller starts have handler.LowPriority.
const urgentPriority = 1

// queue is the work queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// priorityOf returns the priority with which a job is requeued. A requeue always sets the priority, because the queue
// would otherwise use the priority of the last event.
func priorityOf(d plan.Decision) int {
	if d.Urgent {
		return urgentPriority
	}
	return 0
}

// podEvents enqueues the job of a pod. The job has urgentPriority if the pod fails, or is deleted before it has
// succeeded.
func (r *Reconciler[J]) podEvents() handler.EventHandler {
	jobs := handler.EnqueueRequestsFromMapFunc(r.requestsOfPod)
	return handler.Funcs{
		CreateFunc: jobs.Create,
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q queue) {
			if failsOrGoes(e.ObjectNew) && !failsOrGoes(e.ObjectOld) {
				q = urgently(q)
			}
			jobs.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e ctrlevent.DeleteEvent, q queue) {
			if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase != corev1.PodSucceeded {
				q = urgently(q)
			}
			if view.IsHeld(e.Object) { // the pod might still exist, with other labels
				for _, job := range r.requestsOfPod(ctx, e.Object) {
					r.options.Memory.left.add(job.NamespacedName, e.Object.GetName())
				}
			}
			jobs.Delete(ctx, e, q)
		},
	}
}

// failsOrGoes reports whether a pod that has not succeeded has failed or is being deleted. Such a pod might have to
// be replaced while its peers wait. A failed sidecar counts like a failed main container, because only the job knows
// which container is the main one.
func failsOrGoes(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	return pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.State.Terminated != nil && s.State.Terminated.ExitCode != 0
		})
}

// changesOfUser enqueues an updated job with urgentPriority, because a change by its user can free nodes.
func changesOfUser() handler.EventHandler {
	job := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q queue) { job.Update(ctx, e, urgently(q)) },
	}
}

// requestsOfPod returns a request for the job of a pod. The Owns method of the builder would do the same, but the
// handler of Owns looks up for each event whether the kind is namespaced. This took 5% of the controller's CPU time
// when many jobs started.
func (r *Reconciler[J]) requestsOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := r.jobOf(pod)
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// jobOf returns the name of the job that controls a pod. For a held pod that no job controls, it returns the value of
// LabelJobName, or the name of the pod if the pod has no such label. The reconcile of this name releases the pod. For
// other pods, jobOf returns an empty string.
func (r *Reconciler[J]) jobOf(pod client.Object) string {
	owner := bounded.Owner(pod)
	switch {
	case owner != nil && owner.Kind == r.gvk.Kind && strings.HasPrefix(owner.APIVersion, r.gvk.Group+"/"):
		return owner.Name
	case view.IsHeld(pod):
		return cmp.Or(pod.GetLabels()[batchv1beta1.LabelJobName], pod.GetName())
	default:
		return ""
	}
}

// urgently returns a queue that adds requests to q with urgentPriority.
func urgently(q queue) queue {
	if q, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		return urgentQueue{q}
	}
	return q // the queue has no priorities
}

// urgentQueue adds requests with urgentPriority, unless the caller sets another priority.
type urgentQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
}

// Add implements priorityqueue.PriorityQueue.
func (q urgentQueue) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q urgentQueue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	if options.Priority == nil {
		options.Priority = new(urgentPriority)
	}
	q.PriorityQueue.AddWithOpts(options, requests...)
}
