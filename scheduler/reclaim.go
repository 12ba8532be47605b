package scheduler

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/control"
)

// reclaim lets Volcano take resources back from a queue only while there is somebody who may have them. Volcano asks the extender about
// each pod that waits and each node in each of its sessions, as long as any queue there may be taken from: where pods wait and all
// queues are of one priority, its sessions would take seconds instead of milliseconds, for nothing.
type reclaim struct{ client client.Client }

func (r *reclaim) setupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	return builder.ControllerManagedBy(mgr).
		Named("reclaim").
		Watches(&v1beta1.Queue{}, all).
		Watches(&v1beta1.PodGroup{}, all).
		WithOptions(control.Options(1)).
		Complete(r)
}

// Reconcile says of all queues of Volcano whether they may be taken from. It returns an error for what is worth another try.
func (r *reclaim) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var queues v1beta1.QueueList
	var groups v1beta1.PodGroupList
	err := errors.Join(r.client.List(ctx, &queues, client.UnsafeDisableDeepCopy), r.client.List(ctx, &groups, client.UnsafeDisableDeepCopy))
	if err != nil {
		return reconcile.Result{}, err
	}
	taker := neediest(queues.Items, groups.Items)
	var errs []error
	for i := range queues.Items {
		queue := &queues.Items[i]
		errs = append(errs, r.set(ctx, queue.Name, taker != nil && givesWay(queue, taker)))
	}
	err = errors.Join(errs...)
	if meta.IsNoMatchError(err) {
		return reconcile.Result{RequeueAfter: lookInterval}, nil
	}
	return reconcile.Result{}, err
}

func (r *reclaim) set(ctx context.Context, name string, reclaimable bool) error {
	var there volcanov1beta1.Queue
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &there); err != nil {
		return client.IgnoreNotFound(err) // there is nothing to take from it before its groups change
	}
	if ptr.Deref(there.Spec.Reclaimable, true) == reclaimable {
		return nil
	}
	changed := there.DeepCopy()
	changed.Spec.Reclaimable = &reclaimable
	if err := r.client.Patch(ctx, changed, client.MergeFrom(&there)); err != nil {
		return fmt.Errorf("changing queue %s of Volcano: %w", name, err)
	}
	return nil
}

// neediest returns the queue of the greatest priority that has a group for which there is no room; nil if there is none. A group that waits
// for anything else, as for its quota, would not get what others lose.
func neediest(queues []v1beta1.Queue, groups []v1beta1.PodGroup) *v1beta1.Queue {
	needy := map[string]bool{}
	for i := range groups {
		c := meta.FindStatusCondition(groups[i].Status.Conditions, v1beta1.ConditionGroupScheduled)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1beta1.ReasonUnschedulable {
			needy[groups[i].Spec.Queue] = true
		}
	}
	var found *v1beta1.Queue
	for i := range queues {
		if queue := &queues[i]; needy[queue.Name] && (found == nil || queue.Spec.Priority > found.Spec.Priority) {
			found = queue
		}
	}
	return found
}
