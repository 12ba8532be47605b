package policy

import (
	"time"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 6 * time.Minute
)

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
		if delay *= 2; delay >= maxRestartDelay {
			return maxRestartDelay
		}
	}
	return delay
}
