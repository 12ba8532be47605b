package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/screen"
)

func TestReasonOfAPod(t *testing.T) {
	t.Parallel()
	unschedulable := []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	tests := map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"a pod that runs needs no reason": {status: corev1.PodStatus{Phase: corev1.PodRunning, Reason: "old"}},
		"the scheduler has found no node": {
			status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: unschedulable}, want: "Unschedulable",
		},
		"the kubelet has evicted the pod": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: "Evicted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, podOf(&corev1.Pod{Status: test.status}).Reason); diff != "" {
				t.Errorf("the reason differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	first, last := time.Unix(1e9, 0), time.Unix(2e9, 0)
	tests := map[string]struct {
		event corev1.Event
		want  time.Time
	}{
		"an event that has occurred several times has its last time": {
			event: corev1.Event{FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(last)}, want: last,
		},
		"a series has the time at which it was observed last": {
			event: corev1.Event{
				EventTime: metav1.NewMicroTime(first), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(last)},
			},
			want: last,
		},
		"an event of the newer API has its own time": {
			event: corev1.Event{EventTime: metav1.NewMicroTime(first)}, want: first,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(screen.Event{Time: test.want}, eventOf(&test.event)); diff != "" {
				t.Errorf("the event differs (-want +got):\n%s", diff)
			}
		})
	}
}
