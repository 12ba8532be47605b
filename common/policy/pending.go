package policy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// waitingReasons maps the kubelet's reasons for a waiting container to reasons in the status of a job. All other
// reasons are part of a normal start.
var waitingReasons = map[string]string{
	"ErrImagePull":               batchv1beta1.ReasonImagePull,
	"ImagePullBackOff":           batchv1beta1.ReasonImagePull,
	"ErrImageNeverPull":          batchv1beta1.ReasonImagePull,
	"InvalidImageName":           batchv1beta1.ReasonImagePull,
	"CreateContainerConfigError": batchv1beta1.ReasonContainerConfig,
	"CreateContainerError":       batchv1beta1.ReasonContainerConfig,
	"RunContainerError":          batchv1beta1.ReasonContainerConfig,
}

// SchedulerMessage removes "not found" from the end of a scheduler's message about a pod, because it does not help
// users. If a plugin of kube-scheduler rejects a pod early, for example because a claim does not exist, the plugin
// for devices finds no state of its own. That plugin then appends "not found".
func SchedulerMessage(message string) string {
	if without, isDoubled := strings.CutSuffix(message, ". not found"); isDoubled {
		return without + "."
	}
	return message
}

// WhyPending returns the reason and the message of a condition for a pod that does not run yet. It truncates quoted
// messages to report.MaxNote.
func WhyPending(pod *corev1.Pod) (reason, message string) {
	if c := ConditionOf(pod, corev1.PodScheduled); c.Status == corev1.ConditionFalse {
		return batchv1beta1.ReasonUnschedulable,
			fmt.Sprintf("%s cannot be scheduled: %s", pod.Name, report.Truncated(SchedulerMessage(c.Message), report.MaxNote))
	}
	blocked, reason := Blocked(pod)
	if reason == "" {
		return batchv1beta1.ReasonPending, fmt.Sprintf("%s is starting", pod.Name)
	}
	waiting := blocked.State.Waiting
	return reason, fmt.Sprintf("container %s of %s cannot start: %s: %s",
		blocked.Name, pod.Name, waiting.Reason, report.Truncated(waiting.Message, report.MaxNote))
}

// Blocked returns the first container that cannot start, and the reason of a condition for it. Both are empty if there
// is none.
func Blocked(pod *corev1.Pod) (status corev1.ContainerStatus, reason string) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := s.State.Waiting; waiting != nil && waitingReasons[waiting.Reason] != "" {
			return s, waitingReasons[waiting.Reason]
		}
	}
	return corev1.ContainerStatus{}, ""
}
