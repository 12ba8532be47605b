// Package kubelet sets the status of pods as the kubelet, the scheduler and the node controllers of Kubernetes do, so
// that tests need neither nodes nor containers. A function that changes a pod simulates an event of the pod, its main
// container or its sidecars.
package kubelet

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/framework"
)

// Exit codes of containers that a signal ended, by the convention of shells: 128 plus the number of the signal.
const (
	ExitKilled     int32 = 128 + 9
	ExitTerminated int32 = 128 + 15
)

// Run makes the pod and all its containers run on a node and become ready.
func Run(pod *corev1.Pod, node string, at time.Time) {
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled
	})
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

// HasFailed reports whether the main container of the pod ended with an exit code other than 0.
func HasFailed(pod *corev1.Pod) bool {
	main := mainStatus(pod)
	return main != nil && main.State.Terminated != nil && main.State.Terminated.ExitCode != 0
}

// Stop ends every running container of the pod, as a deletion of the pod does. The main container ends with the given
// exit code, and the others by SIGTERM.
func Stop(pod *corev1.Pod, code int32, at time.Time) {
	if IsTraining(pod) {
		Exit(pod, code, "", at)
	}
	EndSidecars(pod, ExitTerminated, at)
}

// EndSidecars ends the running sidecars with an exit code. The pod ends if the main container has ended.
func EndSidecars(pod *corev1.Pod, code int32, at time.Time) {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name != MainContainer(pod) && s.State.Running != nil {
			set(&pod.Status.ContainerStatuses, s.Name, terminated(code, at))
		}
	}
	endIfOver(pod, at)
}

// Exit ends the main container with an exit code. The pod ends if no other container runs, except init containers.
// The argument output is the tail of the container's log, which the kubelet keeps as the termination message.
func Exit(pod *corev1.Pod, code int32, output string, at time.Time) {
	end(pod, code, reasonOf(code), output, at)
}

// Restart ends the main container with an exit code and restarts it in its pod. The pods of jobs do not request such
// restarts.
func Restart(pod *corev1.Pod, code int32, at time.Time) {
	end(pod, code, "Error", "", at)
	pod.Status.Phase = corev1.PodRunning
	main := mainStatus(pod)
	main.LastTerminationState = main.State
	main.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(at)}}
	main.RestartCount++
}

// KillForMemory ends the main container because it exceeded its memory limit.
func KillForMemory(pod *corev1.Pod, at time.Time) {
	end(pod, ExitKilled, "OOMKilled", "", at)
}

// EvictForStorage evicts the pod because it exceeded its ephemeral-storage limit. The kubelet does not report such an
// eviction as a disruption.
func EvictForStorage(pod *corev1.Pod, at time.Time) {
	end(pod, ExitKilled, "Error", "", at)
	EndSidecars(pod, ExitKilled, at)
	pod.Status.Reason = "Evicted"
	pod.Status.Message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
}

// LoseContainers ends the pod after its node was restarted without a shutdown. After such a restart, containerd still
// lists the containers, but does not know how they ended.
func LoseContainers(pod *corev1.Pod, at time.Time) {
	end(pod, 255, "Unknown", "", at)
	EndSidecars(pod, 255, at)
}

// Reject makes the pod fail before any of its containers starts, because the node has too few free resources.
func Reject(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu",
	}
}

// Preempt marks the pod as preempted by a pod with a higher priority. The caller must then delete the pod.
func Preempt(pod *corev1.Pod, at time.Time) { disrupt(pod, corev1.PodReasonPreemptionByScheduler, at) }

// LoseNode marks the pod as running on a node that no longer responds. The caller must then delete the pod. No
// kubelet confirms the deletion.
func LoseNode(pod *corev1.Pod, at time.Time) {
	disrupt(pod, "DeletionByTaintManager", at)
	setCondition(pod, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
}

// TaintDevice marks the pod as evicted because a device of one of its ResourceClaims has a taint with the effect
// NoExecute. The caller must then delete the pod.
func TaintDevice(pod *corev1.Pod, at time.Time) { disrupt(pod, "DeletionByDeviceTaintManager", at) }

// BreakDevice makes the kubelet report a device of the main container as unhealthy. The container continues to run.
// The report stays when the state of the container changes.
func BreakDevice(pod *corev1.Pod, resource corev1.ResourceName, id corev1.ResourceID) {
	setDevice(pod, resource, corev1.ResourceHealth{ResourceID: id, Health: corev1.ResourceHealthStatusUnhealthy})
}

// ForgetDevice makes the kubelet report that the health of a device of the main container is unknown, for example
// because the device plugin restarts.
func ForgetDevice(pod *corev1.Pod, resource corev1.ResourceName, id corev1.ResourceID) {
	setDevice(pod, resource, corev1.ResourceHealth{ResourceID: id, Health: corev1.ResourceHealthStatusUnknown})
}

// RepairDevice makes the kubelet report a device of the main container as healthy.
func RepairDevice(pod *corev1.Pod, resource corev1.ResourceName, id corev1.ResourceID) {
	setDevice(pod, resource, corev1.ResourceHealth{ResourceID: id, Health: corev1.ResourceHealthStatusHealthy})
}

// HasUnhealthyDevice reports whether a device of the main container is unhealthy.
func HasUnhealthyDevice(pod *corev1.Pod) bool {
	main := mainStatus(pod)
	return main != nil && slices.ContainsFunc(main.AllocatedResourcesStatus, func(r corev1.ResourceStatus) bool {
		return slices.ContainsFunc(r.Resources, func(device corev1.ResourceHealth) bool {
			return device.Health == corev1.ResourceHealthStatusUnhealthy
		})
	})
}

// FindNoNode makes the scheduler report that the pod fits on no node.
func FindNoNode(pod *corev1.Pod, at time.Time) {
	setCondition(pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message:            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
		LastTransitionTime: seconds(at),
	})
}

// IsUnschedulable reports whether the scheduler has found no node for the pod.
func IsUnschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable
	})
}

// ShutDownNode ends the pod because its node shuts down. The program saves its work on SIGTERM and exits with 0. The
// pod is not deleted.
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

// endIfOver ends a pod if all its containers have ended. An init container that is a sidecar ends with the pod, and
// its exit code does not affect the phase of the pod.
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

// reasonOf returns the kubelet's termination reason for an exit code.
func reasonOf(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

// seconds truncates a time to seconds, as the kubelet does.
func seconds(at time.Time) metav1.Time { return metav1.NewTime(at).Rfc3339Copy() }

// MainContainer returns the name of the main container of the pod. It is the container that framework.AnnotationMain
// names, or the first container if the pod does not have the annotation.
func MainContainer(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[framework.AnnotationMain], pod.Spec.Containers[0].Name)
}

func mainStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == MainContainer(pod) {
			return s
		}
	}
	return nil
}

// set sets the state of a container. The container is ready if it runs.
func set(statuses *[]corev1.ContainerStatus, name string, state corev1.ContainerState) {
	status := corev1.ContainerStatus{Name: name, Ready: state.Running != nil, State: state}
	for i := range *statuses {
		if before := (*statuses)[i]; before.Name == name {
			status.RestartCount, status.LastTerminationState = before.RestartCount, before.LastTerminationState
			status.AllocatedResourcesStatus = before.AllocatedResourcesStatus
			(*statuses)[i] = status
			return
		}
	}
	*statuses = append(*statuses, status)
}

// setDevice sets the health of the only device of the main container.
func setDevice(pod *corev1.Pod, resource corev1.ResourceName, device corev1.ResourceHealth) {
	if main := mainStatus(pod); main != nil {
		main.AllocatedResourcesStatus = []corev1.ResourceStatus{
			{Name: resource, Resources: []corev1.ResourceHealth{device}},
		}
	}
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
