package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// reclaim is a controller that sets reclaimable on Volcano's queues. Volcano may reclaim resources from a queue only
// while a queue with a higher priority needs them.
//
// If any queue is reclaimable, each session of Volcano asks the extender about every waiting pod and every node.
// Without this controller, sessions would take seconds instead of milliseconds, even while all queues have the same
// priority and nothing can be reclaimed.
type reclaim struct{ *volcano }

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

// Reconcile sets reclaimable on all queues of Volcano that belong to a Queue. It returns an error if it must be
// retried.
func (r *reclaim) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var queues v1beta1.QueueList
	var groups v1beta1.PodGroupList
	for _, list := range []client.ObjectList{&queues, &groups} {
		err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	order, taker := queues.Items, neediest(queues.Items, groups.Items)
	if taker != nil {
		total, err := r.resourcesOfNodes(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		order = slices.SortedFunc(slices.Values(order), firstToGive(total)) // a copy, since the taker is one of them
	}
	var errs []error
	for i := range order {
		queue := &order[i]
		errs = append(errs, r.set(ctx, queue, taker != nil && givesWay(queue, taker)))
	}
	err := errors.Join(errs...)
	if meta.IsNoMatchError(err) {
		return reconcile.Result{RequeueAfter: pollInterval}, nil
	}
	return reconcile.Result{}, err
}

func (r *reclaim) set(ctx context.Context, queue *v1beta1.Queue, reclaimable bool) error {
	var there volcanov1beta1.Queue
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(queue), &there); err != nil {
		return client.IgnoreNotFound(err) // Volcano has no such queue yet; a change of its PodGroups causes a retry
	}
	if !isOurs(&there, queue) || ptr.Deref(there.Spec.Reclaimable, true) == reclaimable {
		return nil
	}
	changed := there.DeepCopy()
	changed.Spec.Reclaimable = &reclaimable
	if err := r.client.Patch(ctx, changed, client.MergeFrom(&there)); err != nil {
		return fmt.Errorf("updating queue %s of Volcano: %w", queue.Name, err)
	}
	return nil
}

// firstToGive returns a comparison that sorts queues in the order in which Volcano reclaims from them: the lowest
// priority first, and then the greatest share. Queues are updated in this order, because a session of Volcano can start
// after only some of the updates.
func firstToGive(total corev1.ResourceList) func(a, b v1beta1.Queue) int {
	return func(a, b v1beta1.Queue) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), -cmp.Compare(shareOf(&a, total), shareOf(&b, total)),
			cmp.Compare(a.Name, b.Name))
	}
}

// shareOf returns the greatest share that a queue has of any resource. A share is the fraction of the quota, or of the
// cluster if the queue has no quota for the resource or the quota is larger.
func shareOf(queue *v1beta1.Queue, total corev1.ResourceList) float64 {
	share := 0.0
	for name, allocated := range queue.Status.Allocated {
		of, hasQuota := quotaOf(queue)[name]
		if all := total[name]; !hasQuota || all.Cmp(of) < 0 {
			of = all
		}
		if has := allocated.AsApproximateFloat64(); has > 0 {
			share = max(share, has/of.AsApproximateFloat64()) // infinite if the divisor is 0
		}
	}
	return share
}

// neediest returns the queue with the highest priority that has an unschedulable group. Nil if there is none. Groups
// that wait for another reason, such as their quota, could not use reclaimed resources.
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
