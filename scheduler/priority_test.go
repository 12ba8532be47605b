package scheduler

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestClassWithAnotherValueOrPolicyIsRejected(t *testing.T) {
	t.Parallel()
	class := priorityClass{Name: "t9k-native-7", Value: 7, Preemption: corev1.PreemptNever}
	there := func(value int32, policy *corev1.PreemptionPolicy) client.Object {
		return &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: class.Name}, Value: value, PreemptionPolicy: policy,
		}
	}
	const message = "PriorityClass t9k-native-7 has the value %d and preemptionPolicy %s, want 7 and Never: delete it"
	for name, tc := range map[string]struct {
		there       client.Object
		wantRefused string
	}{
		"the class of the controller": {there: there(7, new(corev1.PreemptNever))},
		"another value": {
			there: there(8, new(corev1.PreemptNever)), wantRefused: fmt.Sprintf(message, 8, corev1.PreemptNever),
		},
		"another policy": {
			there:       there(7, new(corev1.PreemptLowerPriority)),
			wantRefused: fmt.Sprintf(message, 7, corev1.PreemptLowerPriority),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := class.ensure(t.Context(), newTestClient(t, tc.there), now)
			expectRefusal(t, err, tc.wantRefused)
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
