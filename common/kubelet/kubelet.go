// Package kubelet writes into pods what the kubelet, the scheduler and the node controllers of Kubernetes report of them, so
// that tests need neither nodes nor containers. Each function describes what befalls the first container of a pod at a time.
package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The exit codes of containers that a signal ended, as a shell counts them.
const (
	ExitKilled     int32 = 128 + 9
	ExitTerminated int32 = 128 + 15
)

// Run lets the pod run on a node, ready.
func Run(pod *corev1.Pod, node string, at time.Time) {
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	setContainer(pod, true, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(at)}})
}

// Exit ends the container with an exit code, and the pod with it. The output is the tail that the kubelet keeps.
func Exit(pod *corev1.Pod, code int32, output string, at time.Time) {
	reason := "Error"
	if code == 0 {
		reason = "Completed"
	}
	end(pod, code, reason, output, at)
}

// KillForMemory ends the container because it exceeded its memory limit.
func KillForMemory(pod *corev1.Pod, at time.Time) {
	end(pod, ExitKilled, "OOMKilled", "", at)
}

// EvictForStorage ends the pod because it exceeded its own ephemeral-storage limit. That is its own fault: the kubelet does
// not call it a disruption.
func EvictForStorage(pod *corev1.Pod, at time.Time) {
	end(pod, ExitKilled, "Error", "", at)
	pod.Status.Reason = "Evicted"
	pod.Status.Message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
}

// Reject ends the pod before any of its containers started, because the node has no room for it.
func Reject(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu"}
}

// Preempt says that the scheduler gives the pod's place to one of a higher priority. Its deletion follows.
func Preempt(pod *corev1.Pod, at time.Time) { disrupt(pod, corev1.PodReasonPreemptionByScheduler, at) }

// LoseNode says that the pod's node no longer answers. The pod's deletion follows, and nobody confirms it.
func LoseNode(pod *corev1.Pod, at time.Time) {
	disrupt(pod, "DeletionByTaintManager", at)
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
}

// ShutDownNode ends the pod because its node shuts down. The program takes the signal as the time to save its work and exits
// with 0. Nobody deletes the pod.
func ShutDownNode(pod *corev1.Pod, at time.Time) {
	disrupt(pod, corev1.PodReasonTerminationByKubelet, at)
	end(pod, 0, "Completed", "", at)
	pod.Status.Phase = corev1.PodFailed
	pod.Status.Reason = "Terminated"
	pod.Status.Message = "Pod was terminated in response to imminent node shutdown."
}

func disrupt(pod *corev1.Pod, reason string, at time.Time) {
	setCondition(pod, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: seconds(at),
	})
}

func end(pod *corev1.Pod, code int32, reason, output string, at time.Time) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"})
	setContainer(pod, false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: output, FinishedAt: seconds(at),
	}})
}

// seconds returns a time as kubelets report it.
func seconds(at time.Time) metav1.Time { return metav1.NewTime(at).Rfc3339Copy() }

func setContainer(pod *corev1.Pod, ready bool, state corev1.ContainerState) {
	status := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, Ready: ready, State: state}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == status.Name {
			pod.Status.ContainerStatuses[i] = status
			return
		}
	}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
}

func setCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition.Type {
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
