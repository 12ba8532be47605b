package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// deletionByTaintManager is the reason of the DisruptionTarget condition of a pod whose node is lost or has another
// NoExecute taint. The API has no constant for it.
const deletionByTaintManager = "DeletionByTaintManager"

// disruptionReasons maps reasons of the DisruptionTarget condition to reasons in the status of a job.
var disruptionReasons = map[string]string{
	corev1.PodReasonPreemptionByScheduler: batchv1beta1.ReasonPreempted,
	"EvictionByEvictionAPI":               batchv1beta1.ReasonEvicted,
	deletionByTaintManager:                batchv1beta1.ReasonNodeLost,
	"DeletionByPodGC":                     batchv1beta1.ReasonNodeLost,
	"DeletionByDeviceTaintManager":        batchv1beta1.ReasonDeviceTainted,
	corev1.PodReasonTerminationByKubelet:  batchv1beta1.ReasonNodeShutdown,
}

// Disruption returns why Kubernetes itself ends a pod. The reason is empty if there is no disruption.
func Disruption(pod *corev1.Pod) string {
	condition := disruptionTarget(pod)
	if condition == nil {
		return ""
	}
	if reason, ok := disruptionReasons[condition.Reason]; ok {
		return reason
	}
	return batchv1beta1.ReasonDisrupted
}

// ForceDeletion returns when a terminating pod must be deleted by force, without the kubelet's confirmation that its
// containers have ended. It returns false if the pod must not be deleted by force. Only pods of lost nodes are, because
// no kubelet will confirm their deletion. The risk is that the containers still run if the node is cut off but alive.
func ForceDeletion(pod *corev1.Pod, delay time.Duration) (time.Time, bool) {
	condition := disruptionTarget(pod)
	if delay == 0 || pod.DeletionTimestamp == nil || condition == nil || condition.Reason != deletionByTaintManager {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(delay), true
}

func disruptionTarget(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
