package scheduler

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/report"
)

func TestMinCount(t *testing.T) {
	t.Parallel()
	inGroup, onNode := newPod(grouped), newPod(grouped, running)
	done := newPod(grouped, succeeded)
	for name, tc := range map[string]struct {
		min   int32
		ofJob bool
		pods  []*corev1.Pod
		want  int32
	}{
		"minCount is minMember while no pod has ended": {
			min: 4, pods: []*corev1.Pod{inGroup, inGroup}, want: 4,
		},
		"minCount is at least 1": {want: 1},
		"succeeded pods are subtracted": {
			min: 3, pods: []*corev1.Pod{done, onNode, inGroup}, want: 2,
		},
		"succeeded pods of a job are not subtracted, since its controller lowers minMember": {
			min: 3, ofJob: true, pods: []*corev1.Pod{done, onNode, inGroup}, want: 3,
		},
		"extra pods do not count while the group has enough other pods": {
			min: 2, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(running, extra)}, want: 2,
		},
		"extra pods on nodes replace pods that the job no longer has": {
			min: 3, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(running, extra), newPod(running, extra)}, want: 2,
		},
		"extra pods without a node replace no pods": {
			min: 3, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(gated, extra)}, want: 3,
		},
		"extra pods on nodes replace pods that have ended": {
			min: 3, ofJob: true, pods: []*corev1.Pod{onNode, done, newPod(running, extra), newPod(running, extra)}, want: 1,
		},
		"extra pods that have ended replace no pods": {
			min: 3, ofJob: true, pods: []*corev1.Pod{onNode, inGroup, newPod(succeeded, extra)}, want: 3,
		},
		"minCount is minMember if there are more pods": {
			min: 1, ofJob: true, pods: []*corev1.Pod{inGroup, inGroup, inGroup}, want: 1,
		},
		"minCount is minMember while the pods of a gang are being created": {
			min: 4, ofJob: true, pods: []*corev1.Pod{inGroup}, want: 4,
		},
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

// If the feature gate GenericWorkload is turned off again, the API server drops spec.schedulingGroup of new pods
// without an error.
func TestPodsWithADroppedGroupAreDetected(t *testing.T) {
	t.Parallel()
	ofJob := func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, gang.AnnotationGroup, "a")
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a pod that has its group is fine":               {pod: newPod(grouped, ofJob)},
		"a pod that should have a group has lost it":     {pod: newPod(ofJob), want: true},
		"an extra pod needs no group of kube-scheduler":  {pod: newPod(extra, ofJob)},
		"a pod that has ended no longer needs its group": {pod: newPod(succeeded, ofJob)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := dropped([]*corev1.Pod{tc.pod}) != nil; got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// All pods of a group must have the same class. Pods that were created before the group determine the class, and the
// class never changes.
func TestPriorityClassOfAGroupStays(t *testing.T) {
	t.Parallel()
	e, c := native{}, newTestClient(t)
	queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = 2 })
	byHand := newPod(grouped)
	ofClass := func(class string) []*corev1.Pod {
		return []*corev1.Pod{byHand, newPod(grouped, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class })}
	}
	for _, step := range []struct {
		name     string
		priority int32
		recorded string // the class in the status of the group
		pods     []*corev1.Pod
		want     string
		wantErr  bool
	}{
		{name: "a", priority: 70, want: "t9k-native-272"},
		{name: "a", priority: 80, recorded: "t9k-native-272", want: "t9k-native-272"},
		{name: "a", priority: 80, wantErr: true},
		{name: "pods-first", priority: 70, pods: []*corev1.Pod{byHand}, want: ""},
		{name: "pods-first", priority: 70, want: ""},
		{name: "pods-of-a-higher-priority", priority: 70, pods: ofClass("t9k-native-1000"), wantErr: true},
		{name: "pods-of-another-engine", priority: 70, pods: ofClass("t9k-volcano-100"), wantErr: true},
		{name: "pods-of-the-group", priority: 70, pods: ofClass("t9k-native-272")[1:], want: "t9k-native-272"},
		{
			name: "a", priority: 80, recorded: "t9k-native-272", pods: ofClass("t9k-native-272")[1:], want: "t9k-native-272",
		},
	} {
		group := newGroup(step.name, 1).withPriority(step.priority).Group
		group.UID, group.Status.PriorityClassName = types.UID(step.name), step.recorded
		view := queueView{Queue: queue, Groups: []groupView{{Group: group, Pods: step.pods, Selected: true}}}
		ensured := ensureEngine(t, c, e, view).Groups[0]
		got, err := ensured.ClassInForce, ensured.Err
		_, isRefused := errors.AsType[*report.RefusedError](err)
		if isRefused != step.wantErr || !isRefused && err != nil || got != step.want {
			t.Errorf("group %s with priority %d: got class %q (%v), want %q", step.name, step.priority, got, err, step.want)
		}
	}
}
