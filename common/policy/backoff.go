package policy

import (
	"time"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 6 * time.Minute

	// deviceDelay is the minimum delay of a restart after DeviceUnhealthy. It is longer than the interval at which
	// kubelets report the devices of their nodes, 10 s by default.
	deviceDelay = 15 * time.Second

	firstRefusalDelay = time.Second
	maxRefusalDelay   = time.Minute
)

// QuotaPatience is how long a job keeps pods that it cannot use because a ResourceQuota rejects other pods of the
// job.
const QuotaPatience = 30 * time.Second

// RefusalDelay returns how long to wait before the next attempt to create an object. The attempts have been failing
// for the given time, for example because of a quota or because the name is taken. The delay equals the given time,
// but is at least 1 s and at most 1 min. So a job loses at most 1 min after the cause of the failures is gone.
func RefusalDelay(lasted time.Duration) time.Duration {
	return min(max(lasted, firstRefusalDelay), maxRefusalDelay)
}

// BackoffLeft reports whether the backoff limit allows another counted restart.
func BackoffLeft(policy batchv1beta1.RunPolicy, backoffCount int32) bool {
	return backoffCount < ptr.Deref(policy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
}

// RestartDelay returns the delay between the end of a replica, or of all replicas, and the restart. The argument
// reason is the reason why the first replica ended. The argument restart is the number of the restart, from 1. The
// first restart has no delay. The second has a delay of 10 seconds, and the delay doubles with each further restart,
// up to 6 minutes. After DeviceUnhealthy, the delay is at least 15 seconds. After a shorter delay, the scheduler
// might not know yet that the node has one device less, and the kubelet would reject the pod.
func RestartDelay(restart int32, reason string) time.Duration {
	if reason == batchv1beta1.ReasonDeviceUnhealthy {
		return max(RestartDelay(restart, ""), deviceDelay)
	}
	if restart <= 1 {
		return 0
	}
	return min(firstRestartDelay<<min(restart-2, 6), maxRestartDelay)
}
