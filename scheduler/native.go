package scheduler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// native is kube-scheduler with gang scheduling (feature gate GenericWorkload, Kubernetes 1.37).
type native struct{}

func (native) newGroup() object { return &schedulingv1beta1.PodGroup{} }

func (native) newQueue() object { return nil }

func (native) notServed() string {
	return "the API server does not serve scheduling.k8s.io/v1beta1: " +
		"enable the feature gate GenericWorkload and --runtime-config=scheduling.k8s.io/v1beta1=true"
}

// reportDelay is how long kube-scheduler can take to report that a group is scheduled, after its first pod was bound.
const reportDelay = 10 * time.Second

// blockers implements engine. It detects that the feature gate GenericWorkload is on in the API server but off in
// kube-scheduler. Then groups exist, but kube-scheduler binds their pods one by one. The only sign is a group with
// bound pods that lacks the condition PodGroupInitiallyScheduled.
//
// Anybody can create a pod with spec.nodeName, which looks like a bound pod. So a group without the condition affects
// only the groups of its namespace. Only kube-scheduler can write the condition. So if any group has the condition,
// kube-scheduler supports groups, and no namespace is blocked.
func (native) blockers(groups []groupView, now time.Time) map[string]blocker {
	silent := map[string]blocker{}
	for _, g := range groups {
		there, exists := g.There.(*schedulingv1beta1.PodGroup)
		switch bound := boundSince(g.Pods); {
		case !exists || bound.IsZero():
		case meta.FindStatusCondition(there.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) != nil:
			return nil
		case silent[g.Group.Namespace].Message == "":
			silent[g.Group.Namespace] = ifUnreported(bound, now)
		}
	}
	return silent
}

// ifUnreported returns the blocker for the case that kube-scheduler has not reported a group as scheduled, although
// its first pod was bound at the given time. Until reportDelay has passed, the blocker has no message and only
// requeues the queue.
func ifUnreported(bound, now time.Time) blocker {
	if due := bound.Add(reportDelay); now.Before(due) {
		return blocker{RequeueAt: due}
	}
	return newBlocker("kube-scheduler binds the pods of groups one by one: "+
		"enable the feature gate GenericWorkload in kube-scheduler too, as in the API server", now)
}

// boundSince returns the time when the first of the pods was bound. Zero if none is bound. Pods count only if they
// are in a group of kube-scheduler, have our schedulerName, and have not ended.
func boundSince(pods []*corev1.Pod) time.Time {
	var first time.Time
	for _, pod := range pods {
		c := policy.ConditionOf(pod, corev1.PodScheduled)
		if c.Status == corev1.ConditionTrue && isGrouped(pod) && !isDone(pod) &&
			pod.Spec.SchedulerName == v1beta1.SchedulerName &&
			(first.IsZero() || c.LastTransitionTime.Time.Before(first)) {
			first = c.LastTransitionTime.Time
		}
	}
	return first
}

// gates implements engine. Pods need the gate if their queue has a quota or selects nodes, since kube-scheduler
// supports neither.
func (native) gates(queue *v1beta1.Queue) bool {
	return queue != nil && (isConfined(queue) || len(quotaOf(queue)) > 0)
}

// priorityClass implements engine. Groups of the queue with the higher priority are scheduled first, whatever the
// priorities of the groups are. The class is fixed once kube-scheduler has the group.
func (native) priorityClass(queue *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass {
	const ofGroups = 101 // the priority of a group is from 0 to 100
	value := queue.Spec.Priority*ofGroups + gang.PriorityOf(group.Spec)
	name := fmt.Sprintf("%s%d", nativeClassPrefix, value)
	return priorityClass{Name: name, Value: value, Preemption: corev1.PreemptNever}
}

// needsOneClass implements engine. kube-scheduler does not try to schedule a group while the priority of one of its
// pods differs from the priority of the group.
func (native) needsOneClass() bool { return true }

func (native) queueLimits(queue *v1beta1.Queue) []metav1.Condition {
	limits := []metav1.Condition{notSupported(
		v1beta1.ConditionFairShareHonoured,
		"kube-scheduler does not support queues: groups of queues with the same priority are ordered by the priority and "+
			"age of the groups, not by the shares of the queues",
	)}
	if queue.Spec.Priority > 0 {
		limits = append(limits, notSupported(v1beta1.ConditionPriorityHonoured,
			"groups of queues with a higher priority go first, but kube-scheduler reclaims no resources from other queues"))
	}
	if queue.Spec.Closed {
		limits = append(limits, notSupported(v1beta1.ConditionClosedHonoured,
			"no more pods are released, but kube-scheduler can still place the pods that were released before"))
	}
	return limits
}

// groupLimits implements engine. kube-scheduler ignores roles. That matters only if the group of kube-scheduler has
// more pods than are needed. Only a group that a user created by hand can have more pods.
func (native) groupLimits(g groupView) []metav1.Condition {
	if n := needOf(g.Group.Spec); n.hasRoles() && countGrouped(g.Pods) > n.Min {
		return []metav1.Condition{notSupported(
			v1beta1.ConditionRolesHonoured,
			"kube-scheduler knows no roles: of more pods than minMember it takes any. Make no more pods than are needed "+
				"until they are on nodes",
		)}
	}
	return nil
}

// queue implements engine. kube-scheduler has no queues.
func (native) queue(queueView) (spec, status change, err error) { return change{}, change{}, nil }

// countGrouped counts the pods that have not ended and that belong to a group of kube-scheduler.
func countGrouped(pods []*corev1.Pod) int {
	return len(filter(pods, func(pod *corev1.Pod) bool { return isGrouped(pod) && !isDone(pod) }))
}

// minCount returns the minCount of kube-scheduler's group. It is lower than the number of needed pods in two cases:
//
//   - Pods of a group without a controller have succeeded. kube-scheduler counts only pods that have not ended. For
//     the group of a job, the job controller lowers minMember itself.
//   - Extra pods are on nodes, and the group has too few other pods, for example after the job was scaled down. The
//     extra pods then count as needed pods, but they are not in kube-scheduler's group.
func minCount(group *v1beta1.PodGroup, pods []*corev1.Pod) int32 {
	needed := needOf(group.Spec).Min
	if metav1.GetControllerOf(group) == nil {
		needed -= int(countPods(pods).Succeeded)
	}
	extras := filter(pods, func(pod *corev1.Pod) bool { return isExtra(pod) && !isDone(pod) && isPlaced(pod) })
	needed -= min(max(0, needed-countGrouped(pods)), len(extras))
	return max(1, int32(needed)) //nolint:gosec // at most 64 roles of 2000
}

// dropped returns a pod that was created with spec.schedulingGroup but lacks the field. Nil if there is none. The API
// server drops the field without an error while the feature gate GenericWorkload is off.
func dropped(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range activeByAge(pods) {
		if pod.Annotations[gang.AnnotationGroup] != "" && !isGrouped(pod) && !isExtra(pod) {
			return pod
		}
	}
	return nil
}

// group implements engine.
func (native) group(g groupView, class string) (c change, classInForce string, err error) {
	if pod := dropped(g.Pods); pod != nil {
		return change{}, "", &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
			"the API server dropped spec.schedulingGroup of pod %s: its feature gate GenericWorkload was off", pod.Name)}
	}
	wanted := schedulingv1beta1.PodGroupSchedulingPolicy{
		Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount(g.Group, g.Pods)},
	}
	there, exists := g.There.(*schedulingv1beta1.PodGroup)
	switch {
	case !exists:
		if classInForce, err = classOf(g.Pods, class); err != nil {
			return change{}, "", err
		}
		return change{After: &schedulingv1beta1.PodGroup{
			ObjectMeta: engineMeta(g.Group),
			Spec:       schedulingv1beta1.PodGroupSpec{SchedulingPolicy: wanted, PriorityClassName: classInForce},
		}}, classInForce, nil
	case metav1.IsControlledBy(there, g.Group):
	case !there.DeletionTimestamp.IsZero():
		return change{}, "", &report.RefusedError{Reason: v1beta1.ReasonEarlierGroup, Err: fmt.Errorf(
			"some pods of an earlier PodGroup %s have not ended, and kube-scheduler keeps that group until then", there.Name)}
	default:
		return change{}, "", report.NameConflict("the PodGroup", "podgroup "+there.Name+" of scheduling.k8s.io", there)
	}
	classInForce = there.Spec.PriorityClassName
	if err := checkClass(g.Group, classInForce, class); err != nil {
		return change{}, "", err
	}
	if has := there.Spec.SchedulingPolicy.Gang; has != nil && has.MinCount == wanted.Gang.MinCount {
		return change{}, classInForce, nil
	}
	changed := there.DeepCopy()
	changed.Spec.SchedulingPolicy = wanted
	return change{Before: there, After: changed}, classInForce, nil
}

// engineMeta returns the metadata of the engine's group for a PodGroup. The engine's group has the same name, and the
// PodGroup owns it.
func engineMeta(group *v1beta1.PodGroup) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: group.Name, Namespace: group.Namespace,
		Labels: map[string]string{
			v1beta1.LabelGroupName: group.Name, "app.kubernetes.io/managed-by": "tensorstack-jobs",
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(group, v1beta1.GroupVersion.WithKind("PodGroup"))},
	}
}
