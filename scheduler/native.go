package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// native is kube-scheduler with gang scheduling (feature gate GenericWorkload, Kubernetes 1.37).
type native struct {
	client client.Client
	reader client.Reader
	clock  clock.PassiveClock
}

// reportDelay is how long kube-scheduler can take to report that a group is scheduled, after its first pod was bound.
const reportDelay = 10 * time.Second

// blockers also detects that the feature gate is off only in kube-scheduler. Then the API server has everything that
// groups need, but kube-scheduler binds their pods one by one. The only sign is that kube-scheduler does not report a
// group as scheduled although its pods are bound.
//
// Anybody can create a pod with spec.nodeName, which looks like a bound pod. So a group without a report affects only
// the groups of its namespace. Only kube-scheduler can write the report, so a single report clears all namespaces.
func (e *native) blockers(ctx context.Context, groups []groupView) (map[string]blocker, error) {
	kind := schema.GroupKind{Group: schedulingv1beta1.GroupName, Kind: "PodGroup"}
	_, err := e.client.RESTMapper().RESTMapping(kind, "v1beta1")
	if meta.IsNoMatchError(err) {
		return map[string]blocker{"": newBlocker("the API server does not serve scheduling.k8s.io/v1beta1: " +
			"enable the feature gate GenericWorkload and --runtime-config=scheduling.k8s.io/v1beta1=true")}, nil
	}
	if err != nil {
		return nil, err
	}
	silent := map[string]blocker{}
	for _, g := range groups {
		if boundSince(g.Pods).IsZero() {
			continue
		}
		var group schedulingv1beta1.PodGroup
		err := e.client.Get(ctx, client.ObjectKeyFromObject(g.Group), &group)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err != nil:
		case meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) != nil:
			return nil, nil
		case silent[g.Group.Namespace].Message == "":
			meaning := e.blockerIfUnreported(boundSince(g.Pods))
			silent[g.Group.Namespace] = meaning
		}
	}
	return silent, nil
}

// blockerIfUnreported returns what follows if kube-scheduler has not reported a group whose first pod was bound at the
// given time.
func (e *native) blockerIfUnreported(bound time.Time) blocker {
	if left := bound.Add(reportDelay).Sub(e.clock.Now()); left > 0 {
		return blocker{RequeueAfter: left}
	}
	return newBlocker("kube-scheduler binds the pods of groups one by one: " +
		"enable the feature gate GenericWorkload in kube-scheduler too, as in the API server")
}

// boundSince returns when the first pod that is in a group of kube-scheduler was bound. Zero if no such pod is bound.
func boundSince(pods []*corev1.Pod) time.Time {
	var first time.Time
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			isBound := c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
			if isBound && isGrouped(pod) && !isDone(pod) && pod.Spec.SchedulerName == v1beta1.SchedulerName &&
				(first.IsZero() || c.LastTransitionTime.Time.Before(first)) {
				first = c.LastTransitionTime.Time
			}
		}
	}
	return first
}

// gates is part of engine. kube-scheduler supports neither quotas nor the nodes of queues.
func (e *native) gates(queue *v1beta1.Queue) bool {
	return queue != nil && (isConfined(queue) || len(quotaOf(queue)) > 0)
}

// priorityClass is part of engine. A group of a queue with a higher priority goes first, whatever the priorities of the
// groups. The class is fixed once kube-scheduler has the group.
func (e *native) priorityClass(queue *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass {
	const ofGroups = 101 // from 0 to 100
	value := queue.Spec.Priority*ofGroups + gang.PriorityOf(group.Spec)
	name := fmt.Sprintf("%s%d", nativeClassPrefix, value)
	return priorityClass{Name: name, Value: value, Preemption: corev1.PreemptNever}
}

// needsOneClass is part of engine. kube-scheduler tries no pod of a group while one of its pods has another priority
// than the group.
func (e *native) needsOneClass() bool { return true }

func (e *native) queueLimits(queue *v1beta1.Queue) []metav1.Condition {
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

// groupLimits is part of engine. A group that was created by hand can have more pods in kube-scheduler's group than it
// needs. The groups of jobs never do.
func (e *native) groupLimits(g groupView) []metav1.Condition {
	if n := needOf(g.Group.Spec); n.hasRoles() && countGrouped(g.Pods) > n.Min {
		return []metav1.Condition{notSupported(
			v1beta1.ConditionRolesHonoured,
			"kube-scheduler knows no roles: of more pods than minMember it takes any. Make no more pods than are needed "+
				"until they are on nodes",
		)}
	}
	return nil
}

func (e *native) syncQueue(context.Context, queueView) error { return nil }

// countGrouped counts the pods in a group of kube-scheduler that have not ended.
func countGrouped(pods []*corev1.Pod) int {
	grouped := 0
	for _, pod := range pods {
		if isGrouped(pod) && !isDone(pod) {
			grouped++
		}
	}
	return grouped
}

// minCount returns the minCount of kube-scheduler's group. It is lower than minMember in two cases:
//
//   - Pods have succeeded. kube-scheduler counts only active pods. The groups of jobs are an exception, because the job
//     controller lowers minMember itself.
//   - The group has too few pods, and extra pods are on nodes. Extra pods are not in kube-scheduler's group. They
//     replace pods that the job no longer has, for example after it was scaled down.
func minCount(group *v1beta1.PodGroup, pods []*corev1.Pod) int32 {
	needed := needOf(group.Spec).Min
	if metav1.GetControllerOf(group) == nil {
		needed -= int(countPods(pods).Succeeded)
	}
	extras := 0
	for _, pod := range pods {
		if isExtra(pod) && !isDone(pod) && isPlaced(pod) {
			extras++
		}
	}
	if missing := needed - countGrouped(pods); missing > 0 {
		needed -= min(missing, extras)
	}
	return max(1, int32(needed)) //nolint:gosec // at most 64 roles of 2000
}

// dropped returns a pod that was created with a group of kube-scheduler and does not have it. Nil if there is none. The
// API server drops the field without an error while its feature gate is off.
func dropped(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range activeByAge(pods) {
		if pod.Annotations[gang.AnnotationGroup] != "" && !isGrouped(pod) && !isExtra(pod) {
			return pod
		}
	}
	return nil
}

// syncGroup is part of engine.
func (e *native) syncGroup(
	ctx context.Context, group *v1beta1.PodGroup, pods []*corev1.Pod, class string,
) (string, error) {
	if pod := dropped(pods); pod != nil {
		return "", &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
			"the API server dropped spec.schedulingGroup of pod %s: its feature gate GenericWorkload was off", pod.Name)}
	}
	want := &schedulingv1beta1.PodGroup{
		ObjectMeta: engineMeta(group),
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount(group, pods)},
			},
		},
	}
	var there schedulingv1beta1.PodGroup
	err := e.client.Get(ctx, client.ObjectKeyFromObject(want), &there)
	switch {
	case apierrors.IsNotFound(err):
		if want.Spec.PriorityClassName, err = classOf(pods, class); err != nil {
			return "", err
		}
		return want.Spec.PriorityClassName, owned.Create(ctx, e.client, e.reader, group, "the PodGroup", want)
	case err != nil:
		return "", err
	case metav1.IsControlledBy(&there, group):
	case !there.DeletionTimestamp.IsZero():
		return "", &report.RefusedError{Reason: v1beta1.ReasonEarlierGroup, Err: fmt.Errorf(
			"some pods of an earlier PodGroup %s have not ended, and kube-scheduler keeps that group until then", there.Name)}
	default:
		return "", report.NameConflict("the PodGroup", "podgroup "+there.Name+" of scheduling.k8s.io", &there)
	}
	if err := checkClass(group, there.Spec.PriorityClassName, class); err != nil {
		return "", err
	}
	if gangOf(&there).MinCount == gangOf(want).MinCount {
		return there.Spec.PriorityClassName, nil
	}
	changed := there.DeepCopy()
	changed.Spec.SchedulingPolicy = want.Spec.SchedulingPolicy
	if err := control.Patch(ctx, e.client, &there, changed); err != nil {
		return "", fmt.Errorf("updating podgroup %s of kube-scheduler: %w", want.Name, err)
	}
	return there.Spec.PriorityClassName, nil
}

func gangOf(group *schedulingv1beta1.PodGroup) schedulingv1beta1.GangSchedulingPolicy {
	if group.Spec.SchedulingPolicy.Gang == nil {
		return schedulingv1beta1.GangSchedulingPolicy{}
	}
	return *group.Spec.SchedulingPolicy.Gang
}

// engineMeta returns the metadata of an engine's group. The group has the name of ours, which owns it.
func engineMeta(group *v1beta1.PodGroup) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: group.Name, Namespace: group.Namespace,
		Labels: map[string]string{
			v1beta1.LabelGroupName: group.Name, "app.kubernetes.io/managed-by": "tensorstack-jobs",
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(group, v1beta1.GroupVersion.WithKind("PodGroup"))},
	}
}
