package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// If the feature gate was turned off again, the API server drops the group of a pod without an error.
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

// All pods of a group must have the same class. Pods that exist before the group decide the class, and it never
// changes.
func TestPriorityClassOfAGroupStays(t *testing.T) {
	t.Parallel()
	e := &native{client: newTestClient(t)}
	queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = 2 })
	byHand := newPod(grouped)
	ofClass := func(class string) []*corev1.Pod {
		return []*corev1.Pod{byHand, newPod(grouped, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class })}
	}
	for _, step := range []struct {
		name     string
		priority int32
		recorded string // in the status of the group
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
		got, err := e.syncGroup(t.Context(), group, step.pods, e.priorityClass(queue, group).Name)
		_, isRefused := errors.AsType[*report.RefusedError](err)
		if isRefused != step.wantErr || !isRefused && err != nil || got != step.want {
			t.Errorf("group %s with priority %d: got class %q (%v), want %q", step.name, step.priority, got, err, step.want)
		}
	}
}

// That kube-scheduler does not support groups shows only in that it does not report them.
func TestGroupsThatKubeSchedulerDoesNotReport(t *testing.T) {
	t.Parallel()
	boundFor := func(age time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			running(pod)
			pod.Spec.SchedulerName = v1beta1.SchedulerName
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-age))
		}
	}
	in := func(namespace string, age time.Duration) groupView {
		g := newGroup(namespace, 1, newPod(grouped, boundFor(age)))
		g.Group.Namespace = namespace
		return g
	}
	known := func(namespace string, conditions ...string) *schedulingv1beta1.PodGroup {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace}}
		for _, c := range conditions {
			group.Status.Conditions = append(group.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
		}
		return group
	}
	const scheduled = schedulingv1beta1.PodGroupInitiallyScheduled
	for name, tc := range map[string]struct {
		groups  []groupView
		objects []client.Object
		want    map[string]time.Duration // after how long to check again
	}{
		"a group without bound pods need not be reported": {
			groups: []groupView{newGroup("a", 1, newPod(grouped))}, objects: []client.Object{known("a")},
		},
		"kube-scheduler has ten seconds to report a group": {
			groups: []groupView{in("a", 4*time.Second)}, objects: []client.Object{known("a")},
			want: map[string]time.Duration{"a": 6 * time.Second},
		},
		"a group that is not reported blocks only the groups of its namespace": {
			groups:  []groupView{in("a", time.Minute), newGroup("b", 1, newPod(grouped))},
			objects: []client.Object{known("a"), known("b")},
			want:    map[string]time.Duration{"a": 30 * time.Second},
		},
		"no namespace is blocked once kube-scheduler has reported any group": {
			groups:  []groupView{in("a", time.Minute), in("b", time.Minute)},
			objects: []client.Object{known("a"), known("b", scheduled)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &native{client: newTestClient(t, tc.objects...), clock: testclock.NewFakePassiveClock(now)}
			blockers, err := e.blockers(t.Context(), tc.groups)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]time.Duration{}
			for namespace, b := range blockers {
				got[namespace] = b.RequeueAfter
				if isFound := b.RequeueAfter == 30*time.Second; isFound != (b.Message != "") {
					t.Errorf("unexpected message for namespace %s: %q", namespace, b.Message)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected blockers (-want +got):\n%s", diff)
			}
		})
	}
}

// kube-scheduler keeps a group that is deleted until its pods have ended. A job that is deleted and created again waits
// for that.
func TestAGroupWaitsForTheEndOfAnEarlierGroupWithItsName(t *testing.T) {
	t.Parallel()
	group := newGroup("a", 1).Group
	group.UID = "new"
	earlier := &schedulingv1beta1.PodGroup{ObjectMeta: engineMeta(newGroup("a", 1).Group)}
	earlier.OwnerReferences[0].UID = "old"
	earlier.DeletionTimestamp = new(metav1.NewTime(now))
	earlier.Finalizers = []string{"scheduling.k8s.io/podgroup-protection"}
	e := &native{client: newTestClient(t, earlier)}
	_, err := e.syncGroup(t.Context(), group, []*corev1.Pod{newPod(grouped, running)}, "t9k-native-10")
	refused, ok := errors.AsType[*report.RefusedError](err)
	if !ok || refused.Reason != v1beta1.ReasonEarlierGroup {
		t.Errorf("got error %v, want one with the reason %s", err, v1beta1.ReasonEarlierGroup)
	}
}
