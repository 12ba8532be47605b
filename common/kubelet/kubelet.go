// Package kubelet writes into pods what the kubelet, the scheduler and the node controllers of Kubernetes report of
// them, so that tests need neither nodes nor containers. Each function describes what happens to the main container of
// a pod, or to its sidecars, at a time.
package kubelet

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationMain names the main container of a pod whose first container is another one. kubectl shows the logs of the
// container that it names, and whoever adds containers to pods sets it.
const AnnotationMain = "kubectl.kubernetes.io/default-container"

// The exit codes of containers that a signal ended, as a shell counts them.
const (
	ExitKilled     int32 = 128 + 9
	ExitTerminated int32 = 128 + 15
)

// Run lets the pod run on a node, ready, with all its containers.
func Run(pod *corev1.Pod, node string, at time.Time) {
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(at)}}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			set(&pod.Status.InitContainerStatuses, c.Name, running)
		}
	}
	for _, c := range pod.Spec.Containers {
		set(&pod.Status.ContainerStatuses, c.Name, running)
	}
}

// IsTraining reports whether the main container of the pod runs.
func IsTraining(pod *corev1.Pod) bool {
	main := mainStatus(pod)
	return main != nil && main.State.Running != nil
}

// HasEnded reports whether the main container of the pod has ended.
func HasEnded(pod *corev1.Pod) bool {
	main := mainStatus(pod)
	return main != nil && main.State.Terminated != nil
}

// HasFailed reports whether the main container of the pod ended with an error.
func HasFailed(pod *corev1.Pod) bool {
	main := mainStatus(pod)
	return main != nil && main.State.Terminated != nil && main.State.Terminated.ExitCode != 0
}

// Stop ends every container of the pod that runs, as when the pod is deleted: the main one with an exit code, the
// others by the signal.
func Stop(pod *corev1.Pod, code int32, at time.Time) {
	if IsTraining(pod) {
		Exit(pod, code, "", at)
	}
	EndSidecars(pod, ExitTerminated, at)
}

// EndSidecars ends the containers that run beside the main one, with an exit code. The pod ends if the main container
// has.
func EndSidecars(pod *corev1.Pod, code int32, at time.Time) {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name != MainContainer(pod) && s.State.Running != nil {
			set(&pod.Status.ContainerStatuses, s.Name, terminated(code, at))
		}
	}
	endIfOver(pod, at)
}

// Exit ends the main container with an exit code, and the pod with it if no sidecar runs on. The output is the tail
// that the kubelet keeps.
func Exit(pod *corev1.Pod, code int32, output string, at time.Time) {
	end(pod, code, reasonOf(code), output, at)
}

// Restart runs the container again in its pod after an end with an exit code. No pod of a job asks for that.
func Restart(pod *corev1.Pod, code int32, at time.Time) {
	end(pod, code, "Error", "", at)
	pod.Status.Phase = corev1.PodRunning
	main := mainStatus(pod)
	main.LastTerminationState = main.State
	main.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(at)}}
	main.RestartCount++
}

// KillForMemory ends the container because it exceeded its memory limit.
func KillForMemory(pod *corev1.Pod, at time.Time) {
	end(pod, ExitKilled, "OOMKilled", "", at)
}

// EvictForStorage ends the pod because it exceeded its own ephemeral-storage limit. That is its own fault: the kubelet
// does not call it a disruption.
func EvictForStorage(pod *corev1.Pod, at time.Time) {
	end(pod, ExitKilled, "Error", "", at)
	EndSidecars(pod, ExitKilled, at)
	pod.Status.Reason = "Evicted"
	pod.Status.Message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
}

// Reject ends the pod before any of its containers started, because the node has no room for it.
func Reject(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu",
	}
}

// Preempt says that the scheduler gives the pod's place to one of a higher priority. Its deletion follows.
func Preempt(pod *corev1.Pod, at time.Time) { disrupt(pod, corev1.PodReasonPreemptionByScheduler, at) }

// LoseNode says that the pod's node no longer answers. The pod's deletion follows, and nobody confirms it.
func LoseNode(pod *corev1.Pod, at time.Time) {
	disrupt(pod, "DeletionByTaintManager", at)
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
}

// ShutDownNode ends the pod because its node shuts down. The program takes the signal as the time to save its work and
// exits with 0. Nobody deletes the pod.
func ShutDownNode(pod *corev1.Pod, at time.Time) {
	disrupt(pod, corev1.PodReasonTerminationByKubelet, at)
	end(pod, 0, "Completed", "", at)
	EndSidecars(pod, ExitTerminated, at)
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
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"})
	set(&pod.Status.ContainerStatuses, MainContainer(pod),
		corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: output, FinishedAt: seconds(at),
		}})
	endIfOver(pod, at)
}

// endIfOver ends a pod if none of its containers runs any more. The sidecars among the init containers end with it, and
// their exit codes do not matter.
func endIfOver(pod *corev1.Pod, at time.Time) {
	phase := corev1.PodSucceeded
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated == nil {
			return
		}
		if s.State.Terminated.ExitCode != 0 {
			phase = corev1.PodFailed
		}
	}
	pod.Status.Phase = phase
	for _, s := range pod.Status.InitContainerStatuses {
		if s.State.Running != nil {
			set(&pod.Status.InitContainerStatuses, s.Name, terminated(ExitTerminated, at))
		}
	}
}

func terminated(code int32, at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reasonOf(code), FinishedAt: seconds(at),
	}}
}

// reasonOf returns how the kubelet calls the end of a container with an exit code.
func reasonOf(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

// seconds returns a time as kubelets report it.
func seconds(at time.Time) metav1.Time { return metav1.NewTime(at).Rfc3339Copy() }

// MainContainer returns the name of the main container of the pod: the one that AnnotationMain names, or else the
// first.
func MainContainer(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[AnnotationMain], pod.Spec.Containers[0].Name)
}

func mainStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == MainContainer(pod) {
			return s
		}
	}
	return nil
}

// set sets the state of a container, which is ready if it runs.
func set(statuses *[]corev1.ContainerStatus, name string, state corev1.ContainerState) {
	status := corev1.ContainerStatus{Name: name, Ready: state.Running != nil, State: state}
	for i := range *statuses {
		if before := (*statuses)[i]; before.Name == name {
			status.RestartCount, status.LastTerminationState = before.RestartCount, before.LastTerminationState
			(*statuses)[i] = status
			return
		}
	}
	*statuses = append(*statuses, status)
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
