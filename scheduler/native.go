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

// tellDelay is how long after pods were bound kube-scheduler has told so of their group.
const tellDelay = 10 * time.Second

// hindrance also finds out whether the feature gate is off at kube-scheduler alone: then the API has all that is
// needed, and pods of groups are bound one by one all the same. Only what it does not say of groups shows that.
//
// Pods that name their node look as if they were bound, whoever makes them. So groups without a word from
// kube-scheduler speak only for their namespace. Nobody but kube-scheduler can write that word, so that it speaks for
// all.
func (e *native) hindrance(ctx context.Context, there []groupView) (map[string]hindrance, error) {
	kind := schema.GroupKind{Group: schedulingv1beta1.GroupName, Kind: "PodGroup"}
	_, err := e.client.RESTMapper().RESTMapping(kind, "v1beta1")
	if meta.IsNoMatchError(err) {
		return map[string]hindrance{"": hindered("the API server does not serve scheduling.k8s.io/v1beta1: " +
			"turn on the feature gate GenericWorkload and --runtime-config=scheduling.k8s.io/v1beta1=true")}, nil
	}
	if err != nil {
		return nil, err
	}
	silent := map[string]hindrance{}
	for _, g := range there {
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
			meaning := e.hindranceOfSilence(boundSince(g.Pods))
			//attack:a group that kube-scheduler does not report holds up all => silent[""] = meaning
			silent[g.Group.Namespace] = meaning
		}
	}
	return silent, nil
}

// hindranceOfSilence returns what it means that kube-scheduler has said nothing of a group whose first pod was bound at
// that time.
func (e *native) hindranceOfSilence(bound time.Time) hindrance {
	if left := bound.Add(tellDelay).Sub(e.clock.Now()); left > 0 {
		return hindrance{LookIn: left}
	}
	return hindered("kube-scheduler binds the pods of groups one by one: " +
		"turn on the feature gate GenericWorkload there as at the API server")
}

// boundSince returns when the first pod in a group of kube-scheduler's was bound; zero if none is.
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

// gates: kube-scheduler keeps no quota.
func (e *native) gates(queue *v1beta1.Queue) bool {
	return queue != nil && (isConfined(queue) || len(quotaOf(queue)) > 0)
}

// priorityClass lets the groups of a queue of a greater priority go first, whatever their own. It is fixed once
// kube-scheduler knows the group.
func (e *native) priorityClass(queue *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass {
	const ofGroups = 101 // from 0 to 100
	value := queue.Spec.Priority*ofGroups + gang.PriorityOf(group.Spec)
	name := fmt.Sprintf("%s%d", nativeClassPrefix, value)
	return priorityClass{Name: name, Value: value, Preemption: corev1.PreemptNever}
}

// needsOneClass: kube-scheduler tries no pod of a group while one has another priority than the group.
func (e *native) needsOneClass() bool { return true }

func (e *native) queueLimits(queue *v1beta1.Queue) []metav1.Condition {
	limits := []metav1.Condition{notSupported(
		v1beta1.ConditionFairShareHonoured,
		"kube-scheduler does not know queues: of those of the same priority, groups go by their own priorities and ages, not by the queues' shares",
	)}
	if queue.Spec.Priority > 0 {
		limits = append(limits, notSupported(v1beta1.ConditionPriorityHonoured,
			"groups of queues of a greater priority go first, but kube-scheduler takes nothing back from other queues for them"))
	}
	if queue.Spec.Closed {
		limits = append(limits, notSupported(v1beta1.ConditionClosedHonoured,
			"no more pods are let through, but kube-scheduler may still place those that were"))
	}
	return limits
}

// groupLimits: a group that was made by hand may have more pods in kube-scheduler's group than it needs. Jobs do not.
func (e *native) groupLimits(g groupView) []metav1.Condition {
	if n := needOf(g.Group.Spec); n.hasRoles() && countGrouped(g.Pods) > n.Min {
		return []metav1.Condition{notSupported(
			v1beta1.ConditionRolesHonoured,
			"kube-scheduler knows no roles: of more pods than minMember it takes any. Make no more pods than are needed until they are on nodes",
		)}
	}
	return nil
}

func (e *native) syncQueue(context.Context, queueView) error { return nil }

// countGrouped counts the pods in a group of kube-scheduler's that may yet do their part.
func countGrouped(pods []*corev1.Pod) int {
	grouped := 0
	for _, pod := range pods {
		if isGrouped(pod) && !isDone(pod) {
			grouped++
		}
	}
	return grouped
}

// minCount is how many pods kube-scheduler needs of a group. It counts those that are active, so that those which have
// succeeded are no longer needed; a job controller says so by itself. And it knows nothing of pods that are on nodes
// outside its group, since the job could do without them: they stand in for those that the job no longer has, as when
// it was scaled down.
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

// dropped returns a pod that was to be in a group of kube-scheduler's and is not; nil if there is none. That is what
// the API server does without a word while its feature gate is off.
func dropped(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range activeByAge(pods) {
		if pod.Annotations[gang.AnnotationGroup] != "" && !isGrouped(pod) && !isExtra(pod) {
			return pod
		}
	}
	return nil
}

// syncGroup lets kube-scheduler know of the group.
func (e *native) syncGroup(
	ctx context.Context, group *v1beta1.PodGroup, pods []*corev1.Pod, class string,
) (string, error) {
	if pod := dropped(pods); pod != nil {
		return "", &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
			"the API server has dropped spec.schedulingGroup of pod %s: its feature gate GenericWorkload was off", pod.Name)}
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
		return "", &report.RefusedError{Reason: v1beta1.ReasonEngineNotReady, Err: fmt.Errorf(
			"podgroup %s of kube-scheduler, which was an earlier group's, goes when its pods have ended", there.Name)}
	default:
		return "", report.NameConflict("the PodGroup", "podgroup "+there.Name+" of scheduling.k8s.io", &there)
	}
	if gangOf(&there).MinCount == gangOf(want).MinCount {
		return there.Spec.PriorityClassName, nil
	}
	changed := there.DeepCopy()
	changed.Spec.SchedulingPolicy = want.Spec.SchedulingPolicy
	if err := e.client.Patch(ctx, changed,
		client.MergeFromWithOptions(&there, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("changing podgroup %s of kube-scheduler: %w", want.Name, err)
	}
	return there.Spec.PriorityClassName, nil
}

func gangOf(group *schedulingv1beta1.PodGroup) schedulingv1beta1.GangSchedulingPolicy {
	if group.Spec.SchedulingPolicy.Gang == nil {
		return schedulingv1beta1.GangSchedulingPolicy{}
	}
	return *group.Spec.SchedulingPolicy.Gang
}

// engineMeta names an engine's group like ours, and lets it go with ours.
func engineMeta(group *v1beta1.PodGroup) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: group.Name, Namespace: group.Namespace,
		Labels: map[string]string{
			v1beta1.LabelGroupName: group.Name, "app.kubernetes.io/managed-by": "tensorstack-jobs",
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(group, v1beta1.GroupVersion.WithKind("PodGroup"))},
	}
}
