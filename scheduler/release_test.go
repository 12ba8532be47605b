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
		wantWaiting map[string]shortage
	}{
		"without a quota all needed pods are released": {
			groups: []groupView{newGroup("a", 2, waiting, waiting)},
			want:   []string{"a-0", "a-1"},
		},
		"pods beyond the needed ones wait until those are on nodes": {
			groups: []groupView{
				newGroup("a", 2, waiting, waiting, waiting), newGroup("b", 2, newPod(running), newPod(), waiting),
			},
			want: []string{"a-0", "a-1"},
		},
		"when the needed pods are on nodes, as many of the others are released as fit": {
			quota:  cpu("4"),
			groups: []groupView{newGroup("a", 2, newPod(running), newPod(running), waiting, waiting, waiting)},
			want:   []string{"a-2", "a-3"},
		},
		"all pods in a group of kube-scheduler are released together": {
			quota: cpu("4"),
			groups: []groupView{
				newGroup("a", 2, newPod(gated, extra), newPod(gated, grouped), newPod(gated, grouped), newPod(gated, grouped)),
			},
			want: []string{"a-1", "a-2", "a-3"},
		},
		"no pod in a group of kube-scheduler is released if not all fit": {
			quota:       cpu("2"),
			groups:      []groupView{newGroup("a", 2, newPod(gated, grouped), newPod(gated, grouped), newPod(gated, grouped))},
			wantWaiting: map[string]shortage{"team/a": {Resource: corev1.ResourceCPU}},
		},
		"a gated extra pod does not replace a needed pod that does not exist yet": {
			groups: []groupView{newGroup("a", 2, newPod(grouped), newPod(gated, extra))},
		},
		"a replacement of a needed pod goes before extra pods": {
			quota: cpu("3"),
			groups: []groupView{
				newGroup("a", 2, newPod(running, grouped), newPod(gated, extra), newPod(running, extra), newPod(gated, grouped)),
			},
			want: []string{"a-3"},
		},
		"a pod with the PriorityClass of another group is not released": {
			groups: []groupView{
				newGroup("a", 1, newPod(gated, ofClass("t9k-native-1010"))).ofClass("t9k-native-10"),
				newGroup("b", 1, newPod(gated, ofClass("t9k-native-10"))).ofClass("t9k-native-10"),
			},
			want: []string{"b-0"},
		},
		"a pod without the PriorityClass of its group is not released if the engine needs one class": {
			groups: []groupView{
				newGroup("a", 2, newPod(gated, ofClass("t9k-native-10")), newPod(gated)).ofClass("t9k-native-10").ofOneClass(),
				newGroup("b", 2, newPod(gated, ofClass("t9k-volcano-10")), newPod(gated)).ofClass("t9k-volcano-10"),
			},
			want: []string{"b-0", "b-1"},
		},
		"a pod with a PriorityClass of ours is not released if its group has no class": {
			groups: []groupView{newGroup("a", 1, newPod(gated, ofClass("t9k-native-1010")))},
		},
		"no pod is released while needed pods do not exist": {
			groups: []groupView{newGroup("a", 2, waiting)},
		},
		"no needed pod is released if not all of them fit the quota": {
			quota:       cpu("1"),
			groups:      []groupView{newGroup("a", 2, waiting, waiting)},
			wantWaiting: map[string]shortage{"team/a": {Resource: corev1.ResourceCPU}},
		},
		"pods of other groups count if they are on nodes or were released": {
			quota:       cpu("3"),
			groups:      []groupView{newGroup("a", 2, newPod(running), newPod(released)), newGroup("b", 2, waiting, waiting)},
			wantWaiting: map[string]shortage{"team/b": {Resource: corev1.ResourceCPU}},
		},
		"pods that were created without the gate do not count before they have a node": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(), newPod()), newGroup("b", 2, waiting, waiting)},
			want:   []string{"b-0", "b-1"},
		},
		"pods that name a node do not count before the node accepts them": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(onNode), newPod(onNode)), newGroup("b", 2, waiting, waiting)},
			want:   []string{"b-0", "b-1"},
		},
		"pods in namespaces that the queue does not select do not count": {
			quota: cpu("2"),
			groups: []groupView{
				newGroup("a", 2, newPod(running), newPod(released)).unselected(), newGroup("b", 2, waiting, waiting),
			},
			want: []string{"b-0", "b-1"},
		},
		"pods on nodes whose group is gone count": {
			quota:       cpu("2"),
			groups:      []groupView{newGroup("b", 2, waiting, waiting)},
			orphans:     []*corev1.Pod{newPod(running)},
			wantWaiting: map[string]shortage{"team/b": {Resource: corev1.ResourceCPU}},
		},
		"pods that have ended do not count": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(succeeded), newPod(succeeded)), newGroup("b", 2, waiting, waiting)},
			want:   []string{"b-0", "b-1"},
		},
		"a resource that a group does not request cannot hold it back, even if its quota is exceeded": {
			quota: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("1")},
			groups: []groupView{
				newGroup("a", 2, newPod(running, withGPU), newPod(running, withGPU)), newGroup("b", 1, waiting),
				newGroup("c", 1, newPod(gated, withGPU)),
			},
			want:        []string{"b-0"},
			wantWaiting: map[string]shortage{"team/c": {Resource: "nvidia.com/gpu"}},
		},
		"the group with the higher priority goes first": {
			quota: cpu("2"),
			groups: []groupView{
				newGroup("a", 2, waiting, waiting).withPriority(10), newGroup("b", 2, waiting, waiting).withPriority(90),
			},
			want:        []string{"b-0", "b-1"},
			wantWaiting: map[string]shortage{"team/a": {Resource: corev1.ResourceCPU}},
		},
		"the older of two groups with the same priority goes first": {
			quota:       cpu("2"),
			groups:      []groupView{newGroup("a", 2, waiting, waiting).after(time.Second), newGroup("b", 2, waiting, waiting)},
			want:        []string{"b-0", "b-1"},
			wantWaiting: map[string]shortage{"team/a": {Resource: corev1.ResourceCPU}},
		},
		"a group that does not fit does not block other groups": {
			quota: cpu("2"),
			groups: []groupView{
				newGroup("a", 3, waiting, waiting, waiting).withPriority(90), newGroup("b", 2, waiting, waiting),
			},
			want:        []string{"b-0", "b-1"},
			wantWaiting: map[string]shortage{"team/a": {Resource: corev1.ResourceCPU}},
		},
		"the replacement of a pod is released while its peers run": {
			groups: []groupView{newGroup("a", 2, newPod(running), waiting)},
			want:   []string{"a-1"},
		},
		"no pod is released while there are too few pods of a role": {
			groups: []groupView{func() groupView {
				g := newGroup("a", 3, newPod(gated, withRole("worker")), newPod(gated, withRole("worker")),
					newPod(gated, withRole("worker")))
				g.Group.Spec.Roles = []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}}
				return g
			}()},
		},
		"pods in a group of kube-scheduler are not released while other needed pods do not exist": {
			groups: []groupView{newGroup("a", 3, newPod(gated, grouped), newPod(gated, grouped))},
		},
		"a pod in a group of kube-scheduler is released only once": {
			groups: []groupView{newGroup("a", 1, newPod(running, grouped), newPod(gated, grouped))},
			want:   []string{"a-1"},
		},
		"extra pods wait while pods in a group of kube-scheduler do not fit": {
			quota: cpu("2"),
			groups: []groupView{newGroup("a", 1,
				newPod(running, grouped), newPod(gated, grouped), newPod(gated, grouped), newPod(gated, extra))},
			wantWaiting: map[string]shortage{"team/a": {Resource: corev1.ResourceCPU}},
		},
		"an additional pod that does not fit blocks the younger additional pods of its group": {
			quota:  cpu("3"),
			groups: []groupView{newGroup("a", 1, newPod(running), newPod(gated, ofCPUs("5")), waiting)},
		},
		"a released extra pod does not replace a needed pod before it is on a node": {
			groups: []groupView{newGroup("a", 2, newPod(running), newPod(released, extra), waiting)},
			want:   []string{"a-2"},
		},
		"an extra pod on a node replaces a needed pod": {
			quota:  cpu("2"),
			groups: []groupView{newGroup("a", 2, newPod(running), newPod(running, extra), waiting)},
		},
		"a pod that is being deleted is not released": {
			groups: []groupView{newGroup("a", 1, newPod(gated, deleting))},
		},
		"a failed pod does not count as a needed pod": {
			groups: []groupView{newGroup("a", 2, newPod(released, failed), waiting)},
		},
		"a gated pod does not count even if it is marked as released": {
			quota:  cpu("1"),
			groups: []groupView{newGroup("a", 2, newPod(gated, released)), newGroup("b", 1, waiting)},
			want:   []string{"b-0"},
		},
		"a released pod that has ended does not count": {
			quota:  cpu("1"),
			groups: []groupView{newGroup("a", 2, newPod(released, failed)), newGroup("b", 1, waiting)},
			want:   []string{"b-0"},
		},
		"a quota can limit the number of pods": {
			quota:       corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")},
			groups:      []groupView{newGroup("a", 2, newPod(running), newPod(running)), newGroup("b", 1, waiting)},
			wantWaiting: map[string]shortage{"team/b": {Resource: corev1.ResourcePods}},
		},
		"of two groups with the same age and priority the first by name goes first": {
			quota:       cpu("1"),
			groups:      []groupView{newGroup("b", 1, waiting), newGroup("a", 1, waiting)},
			want:        []string{"a-0"},
			wantWaiting: map[string]shortage{"team/b": {Resource: corev1.ResourceCPU}},
		},
		"no pod is released while the engine may lack its group": {
			groups: []groupView{func() groupView { g := newGroup("a", 1, waiting); g.Unknown = true; return g }()},
		},
		"no pod is released while its group is not admitted": {
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
				t.Errorf("unexpected released pods (-want +got):\n%s", diff)
			}
			if tc.wantWaiting == nil {
				tc.wantWaiting = map[string]shortage{}
			}
			if diff := cmp.Diff(tc.wantWaiting, waiting); diff != "" {
				t.Errorf("unexpected waiting groups (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReleaseKeepsQuotasAndGroups draws random groups and checks that release never exceeds the quota. It also checks
// that release releases pods of a group only if the group then has at least as many ungated pods as it needs.
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
				t.Fatalf("%d pods of %s are released and %d are ungated already, but it needs %d",
					now, g.Group.Name, through, needed)
			}
		}
		if after > 0 && before+after > limit {
			t.Fatalf("%d CPUs are used and %d are released, but the quota is %d", before, after, limit)
		}
	})
}
