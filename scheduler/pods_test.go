package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestStateOfPod(t *testing.T) {
	t.Parallel()
	type state struct{ Gated, HoldsNode, MayHoldNode, Done, Placed bool }
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: status}} }
	}
	otherGate := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/data"}}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want state
	}{
		"a new pod holds no node":                              {pod: newPod()},
		"a pod with the gate of its queue is gated":            {pod: newPod(gated), want: state{Gated: true}},
		"a pod with a gate of another controller is not gated": {pod: newPod(otherGate)},
		"a released pod may hold a node":                       {pod: newPod(released), want: state{MayHoldNode: true}},
		"a pod that a scheduler has bound holds its node": {
			pod: newPod(bound), want: state{HoldsNode: true, MayHoldNode: true, Placed: true},
		},
		"a pod that only names a node holds none": {pod: newPod(onNode), want: state{Placed: true}},
		"a pod without a node holds none, whatever its conditions": {
			pod: newPod(condition(corev1.PodScheduled, corev1.ConditionTrue)),
		},
		"a pod whose condition PodScheduled is False holds no node": {
			pod: newPod(onNode, condition(corev1.PodScheduled, corev1.ConditionFalse)), want: state{Placed: true},
		},
		"a pod with only another condition holds no node": {
			pod: newPod(onNode, condition(corev1.PodReady, corev1.ConditionTrue)), want: state{Placed: true},
		},
		"a succeeded pod holds no node, and is placed":  {pod: newPod(succeeded), want: state{Done: true, Placed: true}},
		"a failed pod holds no node, and is not placed": {pod: newPod(bound, failed), want: state{Done: true}},
		"a released pod that failed holds no node":      {pod: newPod(released, failed), want: state{Done: true}},
		"a succeeded pod without a node is placed": {
			pod:  newPod(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }),
			want: state{Done: true, Placed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := state{isGated(tc.pod), occupiesNode(tc.pod), mayOccupyNode(tc.pod), isDone(tc.pod), isPlaced(tc.pod)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsAreCountedByPhase(t *testing.T) {
	t.Parallel()
	unknown := newPod(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodUnknown })
	got := countPods([]*corev1.Pod{
		newPod(), newPod(), newPod(running), newPod(succeeded), newPod(succeeded), newPod(succeeded),
		newPod(failed), newPod(failed), unknown,
	})
	want := v1beta1.PodCounts{Pending: 2, Running: 1, Succeeded: 3, Failed: 2, Unknown: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected counts (-want +got):\n%s", diff)
	}
}

func TestActivePodsAreSortedByAgeAndName(t *testing.T) {
	t.Parallel()
	aged := func(name string, age time.Duration, changes ...func(*corev1.Pod)) *corev1.Pod {
		pod := newPod(changes...)
		pod.Name, pod.CreationTimestamp = name, metav1.NewTime(now.Add(-age))
		return pod
	}
	got := activeByAge([]*corev1.Pod{
		aged("young", time.Minute), aged("b", time.Hour), aged("gone", time.Hour, deleting), aged("a", time.Hour),
		aged("done", time.Hour, succeeded), aged("old", 2*time.Hour),
	})
	if diff := cmp.Diff([]string{"old", "a", "b", "young"}, podNames(got)); diff != "" {
		t.Errorf("unexpected pods (-want +got):\n%s", diff)
	}
}

// Tenants choose the names of resources, and the API server rejects a status that is too large. So the number of
// resources in the status is limited.
func TestAllocatedResourcesAreLimited(t *testing.T) {
	t.Parallel()
	of := func(names ...corev1.ResourceName) corev1.ResourceList {
		list := corev1.ResourceList{}
		for _, name := range names {
			list[name] = resource.MustParse("1")
		}
		return list
	}
	var pods []*corev1.Pod
	for i := range 100 {
		invented := corev1.ResourceName(fmt.Sprintf("a.example.org/%03d", i))
		pods = append(pods, newPod(running, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = of(invented, corev1.ResourceMemory, "nvidia.com/gpu")
		}))
	}
	want := []corev1.ResourceName{"nvidia.com/gpu", corev1.ResourceMemory}
	for i := range maxResources - len(want) {
		want = append(want, corev1.ResourceName(fmt.Sprintf("a.example.org/%03d", i)))
	}
	slices.Sort(want)
	got := slices.Sorted(maps.Keys(allocatedTo(pods, of("nvidia.com/gpu"))))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected resources (-want +got):\n%s", diff)
	}
}

func TestDevicesThatAContainerRequestsCountForTheirClass(t *testing.T) {
	t.Parallel()
	pod := newPod(func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests["deviceclass.resource.kubernetes.io/gpu"] = resource.MustParse("2")
	})
	want := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("1"),
		gpus: resource.MustParse("2"),
	}
	if diff := cmp.Diff(want, requestsOf(pod)); diff != "" {
		t.Errorf("unexpected requests (-want +got):\n%s", diff)
	}
}
