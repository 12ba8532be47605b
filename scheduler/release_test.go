package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	waiting := newPod(gated)
	cases := map[string]struct {
		quota       corev1.ResourceList
		groups      []groupView
		orphans     []*corev1.Pod
		want        []string
		wantWaiting map[string]held
	}{
		"without a quota all that are needed are released": {
			groups: []groupView{newGroup("a", 2, waiting, waiting)},
			want:   []string{"a-0", "a-1"},
		},
		"those that a group can do without wait until the others are on nodes": {
			groups: []groupView{
				newGroup("a", 2, waiting, waiting, waiting), newGroup("b", 2, newPod(running), newPod(), waiting),
			},
			want: []string{"a-0", "a-1"},
		},
		"as many as fit then": {
			quota:  cpu("4"),
			groups: []groupView{newGroup("a", 2, newPod(running), newPod(running), waiting, waiting, waiting)},
			want:   []string{"a-2", "a-3"},
		},
		"all in a group of kube-scheduler's are released together, since it would wait for each": {
			quota: cpu("4"),
			groups: []groupView{
				newGroup("a", 2, newPod(gated, extra), newPod(gated, grouped), newPod(gated, grouped), newPod(gated, grouped)),
			},
			want: []string{"a-1", "a-2", "a-3"},
		},
		"or none of them": {
			quota:       cpu("2"),
			groups:      []groupView{newGroup("a", 2, newPod(gated, grouped), newPod(gated, grouped), newPod(gated, grouped))},
			wantWaiting: map[string]held{"team/a": {corev1.ResourceCPU}},
		},
		"one that a group can do without does not stand in for one that is not there yet": {
			groups: []groupView{newGroup("a", 2, newPod(grouped), newPod(gated, extra))},
		},
		"one of them that is made anew goes before those that the group can do without": {
			quota: cpu("3"),
			groups: []groupView{
				newGroup("a", 2, newPod(running, grouped), newPod(gated, extra), newPod(running, extra), newPod(gated, grouped)),
			},
			want: []string{"a-3"},
		},
		"a pod with the PriorityClass of another group is held, and one with that of its own is not": {
			groups: []groupView{
				newGroup("a", 1, newPod(gated, ofClass("t9k-native-1010"))).ofClass("t9k-native-10"),
				newGroup("b", 1, newPod(gated, ofClass("t9k-native-10"))).ofClass("t9k-native-10"),
			},
			want: []string{"b-0"},
		},
		"a pod without the PriorityClass of its group is held if the engine needs one": {
			groups: []groupView{
				newGroup("a", 2, newPod(gated, ofClass("t9k-native-10")), newPod(gated)).ofClass("t9k-native-10").ofOneClass(),
				newGroup("b", 2, newPod(gated, ofClass("t9k-volcano-10")), newPod(gated)).ofClass("t9k-volcano-10"),
			},
			want: []string{"b-0", "b-1"},
		},
		"of a group that has no class, since its first pods had none, a pod with that of another group is held": {
			groups: []groupView{newGroup("a", 1, newPod(gated, ofClass("t9k-native-1010")))},
		},
		"a group that lacks pods is not": {
			groups: []groupView{newGroup("a", 2, waiting)},
		},
		"what a group needs is released together or not at all": {
			quota:       cpu("1"),
			groups:      []groupView{newGroup("a", 2, waiting, waiting)},
			wantWaiting: map[string]held{"team/a": {corev1.ResourceCPU}},
		},
		"what others use counts, whether it is on nodes or was only released": {
			quota:       cpu("3"),
			groups:      []groupView{newGroup("a", 2, newPod(running), newPod(released)), newGroup("b", 2, waiting, waiting)},
			wantWaiting: map[string]held{"team/b": {corev1.ResourceCPU}},
		},
		"pods that nobody released do not count, although they have no gate": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(), newPod()), newGroup("b", 2, waiting, waiting)},
			want:   []string{"b-0", "b-1"},
		},
		"pods that name a node that has not accepted them do not count": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(onNode), newPod(onNode)), newGroup("b", 2, waiting, waiting)},
			want:   []string{"b-0", "b-1"},
		},
		"pods of a namespace that the queue does not select do not count": {
			quota: cpu("2"),
			groups: []groupView{
				newGroup("a", 2, newPod(running), newPod(released)).unselected(), newGroup("b", 2, waiting, waiting),
			},
			want: []string{"b-0", "b-1"},
		},
		"what is left of a group that is gone counts": {
			quota:       cpu("2"),
			groups:      []groupView{newGroup("b", 2, waiting, waiting)},
			orphans:     []*corev1.Pod{newPod(running)},
			wantWaiting: map[string]held{"team/b": {corev1.ResourceCPU}},
		},
		"what has ended does not": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(succeeded), newPod(succeeded)), newGroup("b", 2, waiting, waiting)},
			want:   []string{"b-0", "b-1"},
		},
		"of what it does not ask for, a group lacks nothing, even if more than the quota is used": {
			quota: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("1")},
			groups: []groupView{
				newGroup("a", 2, newPod(running, withGPU), newPod(running, withGPU)), newGroup("b", 1, waiting),
				newGroup("c", 1, newPod(gated, withGPU)),
			},
			want:        []string{"b-0"},
			wantWaiting: map[string]held{"team/c": {"nvidia.com/gpu"}},
		},
		"a greater priority goes first": {
			quota: cpu("2"),
			groups: []groupView{
				newGroup("a", 2, waiting, waiting).withPriority(10), newGroup("b", 2, waiting, waiting).withPriority(90),
			},
			want:        []string{"b-0", "b-1"},
			wantWaiting: map[string]held{"team/a": {corev1.ResourceCPU}},
		},
		"of equal ones the older goes first": {
			quota:       cpu("2"),
			groups:      []groupView{newGroup("a", 2, waiting, waiting).after(time.Second), newGroup("b", 2, waiting, waiting)},
			want:        []string{"b-0", "b-1"},
			wantWaiting: map[string]held{"team/a": {corev1.ResourceCPU}},
		},
		"one that is too large does not hold up others": {
			quota: cpu("2"),
			groups: []groupView{
				newGroup("a", 3, waiting, waiting, waiting).withPriority(90), newGroup("b", 2, waiting, waiting),
			},
			want:        []string{"b-0", "b-1"},
			wantWaiting: map[string]held{"team/a": {corev1.ResourceCPU}},
		},
		"a replacement joins those that run": {
			groups: []groupView{newGroup("a", 2, newPod(running), waiting)},
			want:   []string{"a-1"},
		},
		"of every role there must be enough": {
			groups: []groupView{func() groupView {
				g := newGroup("a", 3, newPod(gated, withRole("worker")), newPod(gated, withRole("worker")),
					newPod(gated, withRole("worker")))
				g.Group.Spec.Roles = []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}}
				return g
			}()},
		},
		"pods in a group of kube-scheduler's are not released while the group lacks others": {
			groups: []groupView{newGroup("a", 3, newPod(gated, grouped), newPod(gated, grouped))},
		},
		"pods in a group of kube-scheduler's that is on nodes are released once": {
			groups: []groupView{newGroup("a", 1, newPod(running, grouped), newPod(gated, grouped))},
			want:   []string{"a-1"},
		},
		"while those in a group of kube-scheduler's do not fit, no other of their group is released": {
			quota: cpu("2"),
			groups: []groupView{newGroup("a", 1,
				newPod(running, grouped), newPod(gated, grouped), newPod(gated, grouped), newPod(gated, extra))},
			wantWaiting: map[string]held{"team/a": {corev1.ResourceCPU}},
		},
		"one more that does not fit holds up the younger ones of its group": {
			quota:  cpu("3"),
			groups: []groupView{newGroup("a", 1, newPod(running), newPod(gated, ofCPUs("5")), waiting)},
		},
		"one that a group can do without does not stand in for others before it is on a node": {
			groups: []groupView{newGroup("a", 2, newPod(running), newPod(released, extra), waiting)},
			want:   []string{"a-2"},
		},
		"one that a group can do without stands in for others once it is on a node": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(running), newPod(running, extra), waiting)},
		},
		"a pod that is being deleted is not released": {
			groups: []groupView{newGroup("a", 1, newPod(gated, deleting))},
		},
		"a pod that failed does not make up its group": {
			groups: []groupView{newGroup("a", 2, newPod(released, failed), waiting)},
		},
		"a pod that says that it was released, and has its gate, does not count": {
			quota:  cpu("1"),
			groups: []groupView{newGroup("a", 2, newPod(gated, released)), newGroup("b", 1, waiting)},
			want:   []string{"b-0"},
		},
		"what was released and has ended does not count": {
			quota:  cpu("1"),
			groups: []groupView{newGroup("a", 2, newPod(released, failed)), newGroup("b", 1, waiting)},
			want:   []string{"b-0"},
		},
		"a quota may limit the number of pods": {
			quota:       corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")},
			groups:      []groupView{newGroup("a", 2, newPod(running), newPod(running)), newGroup("b", 1, waiting)},
			wantWaiting: map[string]held{"team/b": {corev1.ResourcePods}},
		},
		"of groups of the same age and priority the first by name goes first": {
			quota:       cpu("1"),
			groups:      []groupView{newGroup("b", 1, waiting), newGroup("a", 1, waiting)},
			want:        []string{"a-0"},
			wantWaiting: map[string]held{"team/b": {corev1.ResourceCPU}},
		},
		"a group that is not known to the engine waits": {
			groups: []groupView{func() groupView { g := newGroup("a", 1, waiting); g.Unknown = true; return g }()},
		},
		"a group that is not admitted waits": {
			groups: []groupView{func() groupView {
				g := newGroup("a", 1, waiting)
				g.Admission.Status = metav1.ConditionFalse
				return g
			}()},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			released, waiting := release(tc.quota, tc.groups, tc.orphans)
			var names []string
			for _, pod := range released {
				names = append(names, pod.Name)
			}
			slices.Sort(names)
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("unexpected pods are released (-want +got):\n%s", diff)
			}
			if tc.wantWaiting == nil {
				tc.wantWaiting = map[string]held{}
			}
			if diff := cmp.Diff(tc.wantWaiting, waiting); diff != "" {
				t.Errorf("unexpected groups wait (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever there is, the quota is kept, and a group is released as a whole or, once it is, one by one.
func TestReleaseKeepsQuotasAndGroups(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var groups []groupView
		for i := range rapid.IntRange(1, 5).Draw(t, "groups") {
			var pods []*corev1.Pod
			for range rapid.IntRange(0, 6).Draw(t, "pods") {
				states := []func(*corev1.Pod){gated, gated, released, running, succeeded}
				pods = append(pods, newPod(rapid.SampledFrom(states).Draw(t, "state")))
			}
			groups = append(groups, newGroup(fmt.Sprint("g", i), int32(rapid.IntRange(0, 6).Draw(t, "min")), pods...))
		}
		limit := rapid.IntRange(0, 12).Draw(t, "quota")
		before, after := 0, 0
		released, _ := release(cpu(fmt.Sprint(limit)), groups, nil)
		for _, g := range groups {
			through, now := 0, 0
			for _, pod := range g.Pods {
				switch {
				case slices.Contains(released, pod):
					now++
				case !isGated(pod):
					through++
					if !isDone(pod) {
						before++
					}
				}
			}
			after += now
			if needed := int(g.Group.Spec.MinMember); now > 0 && through+now < needed {
				t.Fatalf("%d pods of %s are released beside %d, and it needs %d", now, g.Group.Name, through, needed)
			}
		}
		if after > 0 && before+after > limit {
			t.Fatalf("%d are used and %d released, of a quota of %d", before, after, limit)
		}
	})
}
