package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// reclaimView is a snapshot of all queues and groups.
type reclaimView struct {
	Queues []v1beta1.Queue
	Groups []v1beta1.PodGroup
	// There maps the name of each queue of Volcano to the queue.
	There map[string]*volcanov1beta1.Queue
	// Nodes is the sum of the allocatable resources of all nodes. Nil if no queue has an unschedulable group.
	Nodes corev1.ResourceList
	// IsServed reports whether the API server serves the queues of Volcano.
	IsServed bool
}

// decide returns the changes of the queues of Volcano, in the order in which they must be made.
func (view reclaimView) decide() []change {
	order, taker := view.Queues, neediest(view.Queues, view.Groups)
	if taker != nil { // sort a copy, since taker points into view.Queues
		order = slices.SortedFunc(slices.Values(order), firstToGive(view.Nodes))
	}
	var changes []change
	for i := range order {
		queue := &order[i]
		reclaimable := taker != nil && givesWay(queue, taker)
		there, exists := view.There[queue.Name]
		if !exists || !isOurs(there, queue) || ptr.Deref(there.Spec.Reclaimable, true) == reclaimable {
			continue
		}
		changed := there.DeepCopy()
		changed.Spec.Reclaimable = &reclaimable
		changes = append(changes, change{Before: there, After: changed})
	}
	return changes
}

// firstToGive returns a comparison that sorts queues in the order in which Volcano reclaims from them: the lowest
// priority first, and then the greatest share. Queues are updated in this order, because a session of Volcano can
// start between two updates. The session must not reclaim from a queue before the earlier queues of the order are
// reclaimable.
func firstToGive(total corev1.ResourceList) func(a, b v1beta1.Queue) int {
	return func(a, b v1beta1.Queue) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), -cmp.Compare(shareOf(&a, total), shareOf(&b, total)),
			cmp.Compare(a.Name, b.Name))
	}
}

// shareOf returns the greatest share that a queue has of any resource. A share is the allocated fraction of the
// quota. If the queue has no quota for the resource, or a quota that exceeds the cluster, the share is the allocated
// fraction of the cluster.
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

// neediest returns, of the queues with an unschedulable group, the queue with the highest priority. Nil if no queue
// has an unschedulable group. Groups that wait for another reason, such as their quota, do not matter: they could not
// use reclaimed resources.
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
