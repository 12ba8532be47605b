package engine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// urgentPriority is that of jobs which do not wait in the queue until all new ones have their pods. What is new has 0, and what a
// controller finds as it starts handler.LowPriority.
const urgentPriority = 1

// queue is what jobs wait in to be reconciled.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podEvents has the job reconciled that controls a pod, urgently if the pod has failed or is gone: its peers hold their nodes, and wait for a
// replacement.
func (r *Reconciler[J]) podEvents() handler.EventHandler {
	jobs := handler.EnqueueRequestsFromMapFunc(r.requestsOfPod)
	return handler.Funcs{
		CreateFunc: jobs.Create,
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q queue) {
			if hasFailed(e.ObjectNew) && !hasFailed(e.ObjectOld) {
				q = urgently(q)
			}
			jobs.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e ctrlevent.DeleteEvent, q queue) { jobs.Delete(ctx, e, urgently(q)) },
	}
}

// changesOfUser has a job reconciled urgently that its user has changed: it may be to release its nodes.
func changesOfUser() handler.EventHandler {
	job := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q queue) { job.Update(ctx, e, urgently(q)) },
	}
}

func hasFailed(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.Status.Phase == corev1.PodFailed
}

// urgently returns the queue for what is urgent.
func urgently(q queue) queue {
	if q, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		return urgentQueue{q}
	}
	return q // which knows no priorities
}

// urgentQueue gives what has no other priority an urgent one.
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
