package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestChangesWait(t *testing.T) {
	t.Parallel()
	running := func(reason, message string) batchv1beta1.JobStatus {
		return batchv1beta1.JobStatus{Conditions: []metav1.Condition{{Type: "Running", Reason: reason, Message: message}}}
	}
	for name, tc := range map[string]struct {
		before, after batchv1beta1.JobStatus
		want          bool
	}{
		"a job without a condition does not wait":    {},
		"the first message of a wait is a change":    {after: running("Queued", "a"), want: true},
		"another message of a wait is a change":      {running("Queued", "a"), running("Queued", "b"), true},
		"the same message is no change":              {before: running("Queued", "a"), after: running("Queued", "a")},
		"the end of a wait is no change of the wait": {before: running("Queued", "a"), after: running("Starting", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ChangesWait(tc.before, tc.after); got != tc.want {
				t.Errorf("ChangesWait returns %t, want %t", got, tc.want)
			}
		})
	}
}
