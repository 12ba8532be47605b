package policy

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// CleansUp says whether the pod of a finished job is deleted. Unfinished looks at the pod, not at its main container: a
// sidecar that runs on holds resources.
func CleansUp(policy batchv1beta1.RunPolicy, pod *corev1.Pod) bool {
	switch policy.CleanUpPolicy {
	case batchv1beta1.CleanUpPolicyAll:
		return true
	case batchv1beta1.CleanUpPolicyNone:
		return false
	default:
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	}
}
