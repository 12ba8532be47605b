package jobs

import (
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/policy"
)

// WhyPending returns why a pod is Pending: a short reason, and the message of the scheduler or of the kubelet. Both
// are empty if the pod is not Pending, or if no reason is known yet. The message can be empty although there is a
// reason.
func WhyPending(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Phase != corev1.PodPending {
		return "", ""
	}
	if c := policy.ConditionOf(pod, corev1.PodScheduled); c.Status == corev1.ConditionFalse {
		return c.Reason, policy.SchedulerMessage(c.Message)
	}
	for _, c := range pod.Status.InitContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing":
			return c.State.Waiting.Reason, c.State.Waiting.Message
		case c.State.Running != nil && !IsSidecar(pod, c.Name):
			return "init container " + c.Name, ""
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return c.State.Waiting.Reason, c.State.Waiting.Message
		}
	}
	return "", ""
}
