package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// CleansUp says whether the pod of a finished job is deleted. Unfinished looks at all containers, not at the main one: a
// sidecar that runs on holds resources.
func CleansUp(policy batchv1beta1.RunPolicy, pod *corev1.Pod) bool {
	switch policy.CleanUpPolicy {
	case batchv1beta1.CleanUpPolicyAll:
		return true
	case batchv1beta1.CleanUpPolicyNone:
		return false
	default:
		return !Ended(pod)
	}
}

// Ended says that nothing of the pod runs any more. The kubelet reports the end of the containers some seconds before that
// of the pod.
func Ended(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	running := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil }
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, running)
}
