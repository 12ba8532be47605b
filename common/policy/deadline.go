package policy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Deadline returns when a job that started at the given time exceeds its active deadline. It returns false if the job
// has no deadline or has not started.
func Deadline(policy batchv1beta1.RunPolicy, start *metav1.Time) (time.Time, bool) {
	if policy.ActiveDeadlineSeconds == nil || start == nil {
		return time.Time{}, false
	}
	return start.Add(time.Duration(*policy.ActiveDeadlineSeconds) * time.Second), true
}
