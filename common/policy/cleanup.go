package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// CleansUp reports whether the clean-up deletes the pod of a job whose end is decided. With the policy Unfinished,
// the clean-up deletes a pod unless all its containers except init containers have ended. A sidecar that is not an
// init container counts, because it holds resources.
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

// Ended reports whether all containers of the pod except its init containers have ended. The kubelet reports this
// some seconds before the end of the pod. In the meantime, the kubelet stops sidecars among the init containers,
// within the grace period of the pod.
func Ended(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	running := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil }
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, running)
}

// MayRun reports whether a container or an init container of the pod runs or might still start.
func MayRun(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	runs := func(s corev1.ContainerStatus) bool { return s.State.Running != nil }
	return !Ended(pod) || slices.ContainsFunc(pod.Status.InitContainerStatuses, runs)
}
