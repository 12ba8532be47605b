package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/report"
)

func TestPriorityClassOfNewGroup(t *testing.T) {
	t.Parallel()
	const class = "t9k-native-10"
	for name, tc := range map[string]struct {
		pods        []*corev1.Pod
		want        string
		wantRefused string
	}{
		"a group without pods has the given class": {want: class},
		"a group has the class of the pods that existed before it": {
			pods: []*corev1.Pod{newPod(ofClass("site")), newPod(ofClass("site"))}, want: "site",
		},
		"a group whose pods have no class has no class": {pods: []*corev1.Pod{newPod()}},
		"pods that have ended do not decide the class": {
			pods: []*corev1.Pod{newPod(succeeded, ofClass("site"))}, want: class,
		},
		"a group whose pods have the given class has it too": {pods: []*corev1.Pod{newPod(ofClass(class))}, want: class},
		"a pod with the class of another group is rejected": {
			pods:        []*corev1.Pod{newPod(ofClass(class)), newPod(ofClass("t9k-native-9999"))},
			wantRefused: "pod  has PriorityClass t9k-native-9999, but its group has t9k-native-10: delete the pod",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := classOf(tc.pods, class)
			if got != tc.want {
				t.Errorf("the class is %q, want %q", got, tc.want)
			}
			expectRefusal(t, err, tc.wantRefused)
		})
	}
}

func TestClassOfTheEnginesGroup(t *testing.T) {
	t.Parallel()
	const class = "t9k-volcano-10"
	for name, tc := range map[string]struct {
		recorded, named string
		wantRefused     string
	}{
		"the class that the controller chooses is accepted":         {named: class},
		"an earlier class of the controller is accepted":            {named: "t9k-volcano-9", recorded: "t9k-volcano-9"},
		"a class of the site, which the pods had, is accepted":      {named: "site"},
		"a group without a class, whose pods had none, is accepted": {},
		"a class of another group is rejected": {
			named: "t9k-volcano-99", recorded: "t9k-volcano-9",
			wantRefused: "podgroup a of the engine has PriorityClass t9k-volcano-99, but its group has t9k-volcano-10: " +
				"delete that podgroup",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := newGroup("a", 1).Group
			group.Status.PriorityClassName = tc.recorded
			expectRefusal(t, checkClass(group, tc.named, class), tc.wantRefused)
		})
	}
}

func TestPriorityClassThatAGroupNeeds(t *testing.T) {
	t.Parallel()
	class := priorityClass{Name: "t9k-native-7", Value: 7, Preemption: corev1.PreemptNever}
	type result struct {
		Create *schedulingv1.PriorityClass
		IsNew  bool
		Err    error
	}
	there := func(value int32, policy *corev1.PreemptionPolicy, age time.Duration) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: class.Name, CreationTimestamp: ago(age)},
			Value:      value, PreemptionPolicy: policy,
		}
	}
	for name, tc := range map[string]struct {
		there *schedulingv1.PriorityClass
		want  result
	}{
		"a class that does not exist is created": {want: result{IsNew: true, Create: &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "t9k-native-7", Labels: map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"},
			},
			Value: 7, PreemptionPolicy: new(corev1.PreemptNever),
			Description: "For pods of PodGroups. The value is made from the priority of the group and, if the engine does not " +
				"support queues, the priority of its queue.",
		}}},
		"an API server might not have seen a class that is younger than half a minute": {
			there: there(7, new(corev1.PreemptNever), 29*time.Second), want: result{IsNew: true},
		},
		"all API servers have seen a class that is half a minute old": {
			there: there(7, new(corev1.PreemptNever), 30*time.Second),
		},
		"a class with another value is refused": {
			there: there(8, new(corev1.PreemptNever), time.Second),
			want: result{Err: refusedByEngine(
				"PriorityClass t9k-native-7 has the value 8 and preemptionPolicy Never, want 7 and Never: delete it")},
		},
		"a class with another policy is refused": {
			there: there(7, new(corev1.PreemptLowerPriority), time.Second),
			want: result{Err: refusedByEngine("PriorityClass t9k-native-7 has the value 7 and preemptionPolicy " +
				"PreemptLowerPriority, want 7 and Never: delete it")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got result
			got.Create, got.IsNew, got.Err = class.check(tc.there, now)
			if diff := cmp.Diff(tc.want, got, described); diff != "" {
				t.Errorf("unexpected result (-want +got):\n%s", diff)
			}
		})
	}
}

// expectRefusal checks that an error is a *report.RefusedError with the message, or nil if the message is empty.
func expectRefusal(t *testing.T, err error, message string) {
	t.Helper()
	type refusal struct{ Reason, Message string }
	var refused, want refusal
	if asRefused, ok := errors.AsType[*report.RefusedError](err); ok {
		refused = refusal{asRefused.Reason, asRefused.Err.Error()}
	} else if err != nil {
		t.Fatal(err)
	}
	if message != "" {
		want = refusal{"NotSupportedByEngine", message}
	}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("unexpected refusal (-want +got):\n%s", diff)
	}
}
