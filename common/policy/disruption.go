package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Reasons of the DisruptionTarget condition of a pod. The API has no constants for them.
const (
	// deletionByTaintManager means that the node is lost or has another NoExecute taint.
	deletionByTaintManager = "DeletionByTaintManager"
	// evictedByTaint replaces deletionByTaintManager if the node is not lost. OnRespondingNode sets it. Kubernetes does
	// not use it.
	evictedByTaint = "EvictedByTaint"
)

// disruptionReasons maps reasons of the DisruptionTarget condition to reasons in the status of a job.
var disruptionReasons = map[string]string{
	corev1.PodReasonPreemptionByScheduler: batchv1beta1.ReasonPreempted,
	"EvictionByEvictionAPI":               batchv1beta1.ReasonEvicted,
	evictedByTaint:                        batchv1beta1.ReasonEvicted,
	deletionByTaintManager:                batchv1beta1.ReasonNodeLost,
	"DeletionByPodGC":                     batchv1beta1.ReasonNodeLost,
	"DeletionByDeviceTaintManager":        batchv1beta1.ReasonDeviceTainted,
	corev1.PodReasonTerminationByKubelet:  batchv1beta1.ReasonNodeShutdown,
}

// IsEvictedByTaint reports whether a taint evicts the pod from its node. The taint can be one of a lost node or any
// other taint with the effect NoExecute. The result is false for a pod that OnRespondingNode has returned.
func IsEvictedByTaint(pod *corev1.Pod) bool {
	condition := disruptionTarget(pod)
	return condition != nil && condition.Reason == deletionByTaintManager
}

// lostNodeTaints are the taints of a lost node. An administrator sets the last one by hand, see
// https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown.
var lostNodeTaints = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeOutOfService}

// IsLost reports whether Kubernetes considers a node as lost: the node is not ready, or has one of lostNodeTaints
// with the effect NoExecute.
func IsLost(node *corev1.Node) bool {
	notReady := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	}
	isLost := func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && slices.Contains(lostNodeTaints, t.Key)
	}
	return slices.ContainsFunc(node.Status.Conditions, notReady) || slices.ContainsFunc(node.Spec.Taints, isLost)
}

// OnRespondingNode returns a copy of a pod that a taint evicts from a node that is not lost. For the copy, Disruption
// returns Evicted instead of NodeLost.
func OnRespondingNode(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	if condition := disruptionTarget(pod); condition != nil {
		condition.Reason = evictedByTaint
	}
	return pod
}

// NextNodeCheck returns when to read the node of a terminating pod again, if the pod is a result of OnRespondingNode.
// At the last read, the node was not lost, but it can be lost before the pod has ended. NextNodeCheck returns zero for
// other pods, and if the delay of forced deletions is 0.
func NextNodeCheck(pod *corev1.Pod, delay time.Duration, now time.Time) time.Time {
	condition := disruptionTarget(pod)
	if delay == 0 || pod.DeletionTimestamp == nil || condition == nil || condition.Reason != evictedByTaint {
		return time.Time{}
	}
	return now.Add(delay - now.Sub(pod.DeletionTimestamp.Time)%delay)
}

// Disruption returns why Kubernetes itself ends a pod. The reason is empty if there is no disruption. If a taint
// evicts the pod, the reason is NodeLost, unless OnRespondingNode returned the pod.
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
// containers have ended. It returns zero if the pod must not be deleted by force. Only pods of lost nodes are deleted
// by force, because no kubelet will confirm their deletion. The risk is that the containers still run if the
// node is disconnected but alive.
func ForceDeletion(pod *corev1.Pod, delay time.Duration) time.Time {
	if delay == 0 || pod.DeletionTimestamp == nil || !IsEvictedByTaint(pod) {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(delay)
}

func disruptionTarget(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
