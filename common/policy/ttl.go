package policy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Expiry returns when a job that finished at the given time expires. It returns false if the job has no TTL or has not
// finished.
func Expiry(policy batchv1beta1.RunPolicy, finished *metav1.Time) (time.Time, bool) {
	if policy.TTLSecondsAfterFinished == nil || finished == nil {
		return time.Time{}, false
	}
	return finished.Add(time.Duration(*policy.TTLSecondsAfterFinished) * time.Second), true
}
