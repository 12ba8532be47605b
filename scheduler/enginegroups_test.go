package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
)

// groupResult has the results of engine.group.
type groupResult struct {
	change

	Class string
	Err   error
}

func groupOf(e engine, g groupView, class string) groupResult {
	g.Group.UID = "uid"
	c, classInForce, err := e.group(g, class)
	return groupResult{c, classInForce, err}
}

// expectGroup compares the expected and the actual results of engine.group.
func expectGroup(t *testing.T, want, got groupResult) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(groupResult{}), described); diff != "" {
		t.Errorf("unexpected group of the engine (-want +got):\n%s", diff)
	}
}

// metaOfGroup returns the metadata of an engine's group that belongs to the PodGroup "a" with the given UID.
func metaOfGroup(uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "team", Name: "a",
		Labels: map[string]string{
			"app.kubernetes.io/managed-by": "tensorstack-jobs", "scheduler.tensorstack.dev/group-name": "a",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "scheduler.tensorstack.dev/v1beta1", Kind: "PodGroup", Name: "a", UID: uid,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}
}

// nativeGroup returns kube-scheduler's group for the PodGroup "a".
func nativeGroup(minCount int32, class string) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metaOfGroup("uid"), Spec: schedulingv1beta1.PodGroupSpec{
		PriorityClassName: class,
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount},
		},
	}}
}

func TestGroupOfKubeScheduler(t *testing.T) {
	t.Parallel()
	const class = "t9k-native-10"
	refused := func(message string) groupResult { return groupResult{Err: refusedByEngine(message)} }
	of := func(uid types.UID) *schedulingv1beta1.PodGroup {
		there := nativeGroup(2, class)
		there.ObjectMeta = metaOfGroup(uid)
		return there
	}
	ending := of("earlier")
	ending.DeletionTimestamp = new(metav1.NewTime(now))
	ungrouped := newPod(func(pod *corev1.Pod) { pod.Annotations = map[string]string{gang.AnnotationGroup: "a"} })
	basic := nativeGroup(2, class)
	basic.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{
		Basic: &schedulingv1beta1.BasicSchedulingPolicy{},
	}
	for name, tc := range map[string]struct {
		pods  []*corev1.Pod
		there *schedulingv1beta1.PodGroup
		want  groupResult
	}{
		"a new group has the class of the priority": {
			want: groupResult{change: change{After: nativeGroup(2, class)}, Class: class},
		},
		"a new group has the class of its pods": {
			pods: []*corev1.Pod{newPod(grouped, ofClass("site"))},
			want: groupResult{change: change{After: nativeGroup(2, "site")}, Class: "site"},
		},
		"a new group is refused if a pod has the class of another group": {
			pods: []*corev1.Pod{newPod(grouped, ofClass("t9k-native-99"))},
			want: refused("pod a-0 has PriorityClass t9k-native-99, but its group has t9k-native-10: delete the pod"),
		},
		"a group is refused if the API server dropped it from a pod": {
			pods: []*corev1.Pod{newPod(grouped), ungrouped}, there: nativeGroup(2, class),
			want: refused("the API server dropped spec.schedulingGroup of pod a-1: its feature gate GenericWorkload was off"),
		},
		"a group that is as it must be is not changed": {there: nativeGroup(2, class), want: groupResult{Class: class}},
		"a group keeps its class when it needs another number of pods": {
			there: nativeGroup(3, "site"),
			want: groupResult{
				change: change{Before: nativeGroup(3, "site"), After: nativeGroup(2, "site")}, Class: "site",
			},
		},
		"a group that is no gang becomes one": {
			there: basic, want: groupResult{change: change{Before: basic, After: nativeGroup(2, class)}, Class: class},
		},
		"a group with the class of another group is refused": {
			there: nativeGroup(3, "t9k-native-99"),
			want: refused("podgroup a of the engine has PriorityClass t9k-native-99, but its group has t9k-native-10: " +
				"delete that podgroup"),
		},
		"a group waits for the pods of a deleted group with its name": {there: ending, want: groupResult{
			Err: refusedFor(v1beta1.ReasonEarlierGroup, "some pods of an earlier PodGroup a have not ended, "+
				"and kube-scheduler keeps that group until then"),
		}},
		"a group that belongs to another PodGroup is left alone": {there: of("other"), want: groupResult{
			Err: refusedFor("NameConflict", "the PodGroup needs podgroup a of scheduling.k8s.io, but one exists that belongs "+
				"to PodGroup a (UID other): rename the PodGroup, or delete that PodGroup"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup("a", 2, tc.pods...)
			if tc.there != nil {
				g.There = tc.there
			}
			expectGroup(t, tc.want, groupOf(native{}, g, class))
		})
	}
}

func TestGroupOfVolcano(t *testing.T) {
	t.Parallel()
	const class = "t9k-volcano-10"
	// there returns Volcano's group for the PodGroup "a", after the given changes. The PodGroup needs two pods.
	there := func(changes ...func(*volcanov1beta1.PodGroup)) *volcanov1beta1.PodGroup {
		group := &volcanov1beta1.PodGroup{ObjectMeta: metaOfGroup("uid"), Spec: volcanov1beta1.PodGroupSpec{
			MinMember: 2, Queue: "lab", PriorityClassName: class,
		}}
		for _, change := range changes {
			change(group)
		}
		return group
	}
	named := func(class string) func(*volcanov1beta1.PodGroup) {
		return func(group *volcanov1beta1.PodGroup) { group.Spec.PriorityClassName = class }
	}
	needs := func(pods string) func(*volcanov1beta1.PodGroup) {
		return func(group *volcanov1beta1.PodGroup) {
			group.Spec.MinResources = &corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(pods), corev1.ResourcePods: resource.MustParse(pods),
			}
		}
	}
	inQueue := func(name string) func(*volcanov1beta1.PodGroup) {
		return func(group *volcanov1beta1.PodGroup) { group.Spec.Queue = name }
	}
	withTasks := func(group *volcanov1beta1.PodGroup) {
		group.Spec.MinTaskMember = map[string]int32{"master": 1, "worker": 1}
	}
	other := func(group *volcanov1beta1.PodGroup) { group.ObjectMeta = metaOfGroup("other") }
	created := func(changes ...func(*volcanov1beta1.PodGroup)) groupResult {
		group := there(changes...)
		return groupResult{change: change{After: group}, Class: group.Spec.PriorityClassName}
	}
	changed := func(before, after *volcanov1beta1.PodGroup) groupResult {
		return groupResult{change: change{Before: before, After: after}, Class: after.Spec.PriorityClassName}
	}
	two := []*corev1.Pod{newPod(), newPod()}
	for name, tc := range map[string]struct {
		pods  []*corev1.Pod
		roles []v1beta1.PodGroupRole
		there *volcanov1beta1.PodGroup
		want  groupResult
	}{
		"a new group has the class of the priority":                 {want: created()},
		"a new group with all pods has the resources of the pods":   {pods: two, want: created(named(""), needs("2"))},
		"a new group with too few pods does not know the resources": {pods: two[:1], want: created(named(""))},
		"pods that the group does not need do not add resources": {
			pods: []*corev1.Pod{newPod(), newPod(), newPod()}, want: created(named(""), needs("2")),
		},
		"a new group has the class of its pods": {
			pods: []*corev1.Pod{newPod(ofClass("site"))}, want: created(named("site")),
		},
		"roles of the group become tasks": {
			roles: []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}, {Name: "worker", MinMember: 1}},
			want:  created(withTasks),
		},
		"a new group is refused if a pod has the class of another group": {
			pods: []*corev1.Pod{newPod(ofClass("t9k-volcano-99"))},
			want: groupResult{Err: refusedByEngine("pod a-0 has PriorityClass t9k-volcano-99, but its group has " +
				"t9k-volcano-10: delete the pod")},
		},
		"a group that is as it must be is not changed": {
			pods: two, there: there(named("site"), needs("2")), want: groupResult{Class: "site"},
		},
		"a group keeps the resources while it has too few pods": {
			pods: two[:1], there: there(needs("3")), want: groupResult{Class: class},
		},
		"a group keeps its class when all else changes": {
			pods: two, there: there(named("site"), inQueue("old"), withTasks, needs("3")),
			want: changed(there(named("site"), inQueue("old"), withTasks, needs("3")), there(named("site"), needs("2"))),
		},
		"a group with the class of another group is refused": {
			there: there(named("t9k-volcano-99"), inQueue("old")),
			want: groupResult{Err: refusedByEngine("podgroup a of the engine has PriorityClass t9k-volcano-99, but its group " +
				"has t9k-volcano-10: delete that podgroup")},
		},
		"a group that belongs to another PodGroup is left alone": {there: there(other, inQueue("old")), want: groupResult{
			Err: refusedFor("NameConflict", "the PodGroup needs podgroup a of scheduling.volcano.sh, but one exists that "+
				"belongs to PodGroup a (UID other): rename the PodGroup, or delete that PodGroup"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup("a", 2, tc.pods...).withRoles(tc.roles...)
			if tc.there != nil {
				g.There = tc.there
			}
			expectGroup(t, tc.want, groupOf(volcano{}, g, class))
		})
	}
}
