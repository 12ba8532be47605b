package policy

import (
	"time"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 6 * time.Minute

	// deviceDelay is longer than the interval of 10 s at which kubelets report the devices of their nodes by default.
	deviceDelay = 15 * time.Second

	firstRefusalDelay = time.Second
	maxRefusalDelay   = time.Minute
)

// QuotaPatience is how long a job keeps pods that it cannot use, because a ResourceQuota rejects the others.
const QuotaPatience = 30 * time.Second

// RefusalDelay returns how long to wait before the next attempt to create an object that has been rejected for the
// given time, because of a quota or because its name is taken. The delay equals that time, but is at least 1 s and at
// most 1 min. So a job loses at most 1 min after the cause is gone.
func RefusalDelay(lasted time.Duration) time.Duration {
	return min(max(lasted, firstRefusalDelay), maxRefusalDelay)
}

// BackoffLeft reports whether the backoff limit allows another counted restart.
func BackoffLeft(policy batchv1beta1.RunPolicy, backoffCount int32) bool {
	return backoffCount < ptr.Deref(policy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
}

// RestartDelay returns the delay between an end with the given reason and the given restart, where 1 is the first
// restart. The first restart has no delay, the second 10 s. The delay then doubles with each restart, up to 6 min. A
// restart after DeviceUnhealthy has a delay of at least 15 s. Until then the scheduler might not know that the node has
// one device less, and the kubelet would reject the pod.
func RestartDelay(restart int32, reason string) time.Duration {
	if reason == batchv1beta1.ReasonDeviceUnhealthy {
		return max(RestartDelay(restart, ""), deviceDelay)
	}
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
