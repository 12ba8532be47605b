package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
)

func TestMinCountOfKubeScheduler(t *testing.T) {
	t.Parallel()
	inGroup, onNode := newPod(grouped), newPod(grouped, running)
	done := newPod(grouped, succeeded)
	for name, tc := range map[string]struct {
		min   int32
		ofJob bool
		pods  []*corev1.Pod
		want  int32
	}{
		"as many as the group needs":                                         {min: 4, pods: []*corev1.Pod{inGroup, inGroup}, want: 4},
		"a group that needs none":                                            {want: 1},
		"those that have succeeded are not needed any more":                  {min: 3, pods: []*corev1.Pod{done, onNode, inGroup}, want: 2},
		"but a job says so by itself":                                        {min: 3, ofJob: true, pods: []*corev1.Pod{done, onNode, inGroup}, want: 3},
		"pods beside the group do not matter while it has enough":            {min: 2, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(running, extra)}, want: 2},
		"they stand in for those that the job no longer has":                 {min: 3, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(running, extra), newPod(running, extra)}, want: 2},
		"but only if they are on nodes":                                      {min: 3, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(gated, extra)}, want: 3},
		"a gang that is made pod by pod is not complete before its last one": {min: 4, ofJob: true, pods: []*corev1.Pod{inGroup}, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := newGroup("a", tc.min).Group
			if tc.ofJob {
				group.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}}
			}
			if got := minCount(group, tc.pods); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// The feature gate may be off at the API server again, which then drops the group of a pod without a word.
func TestPodsThatLackTheirGroup(t *testing.T) {
	t.Parallel()
	ofJob := func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, gang.AnnotationGroup, "a")
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a pod in a group of kube-scheduler's":      {pod: newPod(grouped, ofJob)},
		"a pod that was to be in one and is not":    {pod: newPod(ofJob), want: true},
		"a pod that its group can do without":       {pod: newPod(extra, ofJob)},
		"a pod that was and has ended is of no use": {pod: newPod(succeeded, ofJob)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := dropped([]*corev1.Pod{tc.pod}) != nil; got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// The pods of a group must be of one class: that of those that were there before it, whatever becomes of its priority.
func TestPriorityClassOfAGroupStays(t *testing.T) {
	t.Parallel()
	e := &native{client: newTestClient(t)}
	queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = 2 })
	byHand := newPod(grouped)
	for _, step := range []struct {
		name     string
		priority int32
		pods     []*corev1.Pod
		want     string
	}{
		{name: "a", priority: 70, want: "t9k-native-272"},
		{name: "a", priority: 80, want: "t9k-native-272"},
		{name: "pods-first", priority: 70, pods: []*corev1.Pod{byHand}, want: ""},
		{name: "pods-first", priority: 70, want: ""},
	} {
		group := newGroup(step.name, 1).withPriority(step.priority).Group
		group.UID = types.UID(step.name)
		got, err := e.syncGroup(t.Context(), group, step.pods, e.priorityClass(queue, group).Name)
		if err != nil || got != step.want {
			t.Errorf("%s, of priority %d: got class %q (%v), want %q", step.name, step.priority, got, err, step.want)
		}
	}
}
