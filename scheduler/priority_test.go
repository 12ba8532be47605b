package scheduler

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/report"
)

func TestClassOfANewGroup(t *testing.T) {
	t.Parallel()
	const class = "t9k-native-10"
	for name, tc := range map[string]struct {
		pods        []*corev1.Pod
		want        string
		wantRefused string
	}{
		"a group without pods has the class that the queue gives it": {want: class},
		"a group has the class of the pods that were there before it": {
			pods: []*corev1.Pod{newPod(ofClass("site")), newPod(ofClass("site"))}, want: "site",
		},
		"a group whose pods have no class has none": {pods: []*corev1.Pod{newPod()}},
		"a pod that has ended does not decide the class": {
			pods: []*corev1.Pod{newPod(succeeded, ofClass("site"))}, want: class,
		},
		"a pod that has the class that the queue gives": {pods: []*corev1.Pod{newPod(ofClass(class))}, want: class},
		"a pod that takes a class of another group is refused": {
			pods: []*corev1.Pod{newPod(ofClass(class)), newPod(ofClass("t9k-native-9999"))},
			wantRefused: "pod  has the PriorityClass t9k-native-9999, and the queue gives the group t9k-native-10: " +
				"delete the pod",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := classOf(tc.pods, class)
			if got != tc.want {
				t.Errorf("the class is %q, want %q", got, tc.want)
			}
			type refusal struct{ Reason, Message string }
			var refused, wantRefused refusal
			if asRefused, ok := errors.AsType[*report.RefusedError](err); ok {
				refused = refusal{asRefused.Reason, asRefused.Err.Error()}
			} else if err != nil {
				t.Fatal(err)
			}
			if tc.wantRefused != "" {
				wantRefused = refusal{"NotSupportedByEngine", tc.wantRefused}
			}
			if diff := cmp.Diff(wantRefused, refused); diff != "" {
				t.Errorf("unexpected refusal (-want +got):\n%s", diff)
			}
		})
	}
}
