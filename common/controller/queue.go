package controller

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// Jobs wait in a queue to be reconciled. One that is new has the priority 0, one that is found as the controller starts
// handler.LowPriority. Those that have an urgent one may hold nodes that do nothing, and do not wait until all new ones
// have their pods.
const urgentPriority = 1

// queue is what jobs wait in.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// priorityOf returns at which priority a job wakes by itself. Unless it is told, the queue takes that of what happened
// last.
func priorityOf(d plan.Decision) int {
	if d.Urgent {
		return urgentPriority
	}
	return 0
}

// podEvents has the job of a pod reconciled, urgently if the pod fails or goes.
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
			if plan.IsHeld(e.Object) { // it may only be hidden from the cache
				for _, job := range r.requestsOfPod(ctx, e.Object) {
					r.options.Memory.noteLeft(job.NamespacedName, e.Object.GetName())
				}
			}
			jobs.Delete(ctx, e, q)
		},
	}
}

// failsOrGoes reports whether the replica of a pod may have to be replaced: its peers wait for that. Which of the
// containers is the main one is known only with the job, so that a sidecar that fails has the job reconciled
// urgently, too.
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

// changesOfUser has a job reconciled urgently that its user has changed: it may be to release its nodes.
func changesOfUser() handler.EventHandler {
	job := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q queue) { job.Update(ctx, e, urgently(q)) },
	}
}

// requestsOfPod returns the job of a pod. The builder's Owns would do the same, but looks up with each event whether
// jobs have namespaces, which was a twentieth of the controller's CPU time where many jobs started.
func (r *Reconciler[J]) requestsOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := r.jobOf(pod)
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// jobOf returns the name of the job that controls a pod. Of a pod that is held and that no job controls, it returns the
// name that the label has: somebody must release the pod. It returns nothing for other pods.
func (r *Reconciler[J]) jobOf(pod client.Object) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner != nil && owner.Kind == r.gvk.Kind && strings.HasPrefix(owner.APIVersion, r.gvk.Group+"/"):
		return owner.Name
	case plan.IsHeld(pod):
		return pod.GetLabels()[batchv1beta1.LabelJobName]
	default:
		return ""
	}
}

// urgently returns the queue for what is urgent.
func urgently(q queue) queue {
	if q, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		return urgentQueue{q}
	}
	return q // which knows no priorities
}

// urgentQueue gives what is added, and has no other priority, an urgent one.
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
