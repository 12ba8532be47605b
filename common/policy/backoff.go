package policy

import (
	"time"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 6 * time.Minute

	firstRefusalDelay = time.Second
	maxRefusalDelay   = time.Minute
)

// RefusalDelay returns how long to wait before an object is created again that has been refused for so long, by a quota
// or by the name being taken: as long as it has lasted, within bounds. The upper one is what a job may lose after the
// reason is gone.
func RefusalDelay(lasted time.Duration) time.Duration {
	return min(max(lasted, firstRefusalDelay), maxRefusalDelay)
}

// BackoffLeft says whether one more counted restart is within the limit.
func BackoffLeft(policy batchv1beta1.RunPolicy, backoffCount int32) bool {
	return backoffCount < ptr.Deref(policy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
}

// RestartDelay returns how long the given restart (1 is the first) waits after the failure: the first not at all, the
// second 10 s, then twice as long each time, up to 6 min.
func RestartDelay(restart int32) time.Duration {
	if restart <= 1 {
		return 0
	}
	delay := firstRestartDelay
	for range restart - 2 {
		//equivalent:boundary of delay >= maxRestartDelay => no delay is the longest one: 320 s is followed by 640 s
		if delay *= 2; delay >= maxRestartDelay {
			return maxRestartDelay
		}
	}
	return delay
}
