// Package policy contains the rules that common/plan applies. Each rule is in a separate file, as pure functions
// without a client, a clock or a logger. The rules implement the API reference of the job kinds.
package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/common/trainlog"
)

// Outcome is the state of a replica, as its pod shows it.
type Outcome struct {
	// Phase is the phase of the replica.
	Phase batchv1beta1.ReplicaPhase
	// Ready reports whether the main container runs and the pod passes its readiness probes.
	Ready bool
	// Terminating reports whether the pod is being deleted and its main container had not ended before the deletion.
	// The exit of such a main container is ignored.
	Terminating bool
	// Disruption is why Kubernetes itself ends the pod, such as Preempted, Evicted or NodeLost. It is empty if there is
	// no disruption.
	Disruption string
	// Failure is set if Phase is Failed.
	Failure *Failure
}

// Failure is why a replica failed.
type Failure struct {
	// ExitCode is the exit code of the main container, or of the init container that failed. Nil means that no container
	// exited with an error.
	ExitCode *int32
	// Init reports whether an init container failed, so that the main container has not run.
	Init bool
	// Reason is the reason of the kubelet, the disruption, or a reason that the controller found, such as
	// DeviceUnhealthy.
	Reason string
	// Output is the relevant part of the tail of the container's output, or of its termination message.
	Output string
	// Report is the information in the output about the process that failed first. The Text of the report is empty,
	// because Output has the text.
	Report trainlog.Report
	// Message is the kubelet's message about the pod, such as why it evicted the pod. If there is none, Message is
	// another known fact: which init container failed, that the main container was restarted, or that the node lost the
	// container. It has at most report.MaxNote bytes.
	Message string
	// Devices are the devices of the pod that the kubelet reported as unhealthy.
	Devices []batchv1beta1.UnhealthyDevice
	// Time is the time of the failure. Zero means unknown.
	Time time.Time
	// Ignored reports whether the program did not cause the failure. As with the action Ignore of a podFailurePolicy, a
	// restart after an ignored failure does not count towards backoffLimit. The failure is still recorded, delays the
	// restart, and ends the job if the restart policy is Never.
	Ignored bool
}

// Detail returns the details of the failure: its message, followed by the container's output.
func (f Failure) Detail() string {
	return strings.Join(slices.DeleteFunc([]string{f.Message, f.Output}, func(s string) bool { return s == "" }), "\n")
}

// Judge returns the state of a replica from its pod and the name of its main container. Without a pod, the phase is
// Creating. The argument devices contains the devices of the pod that the kubelet reports as unhealthy. If the
// program has failed, these devices are the reason of the failure, unless a more specific reason is known, such as
// OOMKilled or Evicted.
func Judge(pod *corev1.Pod, mainContainer string, devices []batchv1beta1.UnhealthyDevice) Outcome {
	if pod == nil {
		return Outcome{Phase: batchv1beta1.ReplicaPhaseCreating}
	}
	main := ContainerStatus(pod.Status.ContainerStatuses, mainContainer)
	outcome := Outcome{
		Terminating: pod.DeletionTimestamp != nil && !endedBeforeDeletion(pod, main),
		Disruption:  Disruption(pod),
	}
	switch {
	case main != nil && main.State.Terminated != nil:
		// The exit of the main container is the outcome of the replica, even if sidecars still run.
		outcome.Phase = batchv1beta1.ReplicaPhaseSucceeded
		if main.State.Terminated.ExitCode != 0 || endedByKubelet(pod, main.State.Terminated) {
			outcome.Phase = batchv1beta1.ReplicaPhaseFailed
		}
	case pod.Status.Phase == corev1.PodFailed:
		outcome.Phase = batchv1beta1.ReplicaPhaseFailed
	case pod.Status.Phase == corev1.PodSucceeded:
		outcome.Phase = batchv1beta1.ReplicaPhaseSucceeded
	case wasRestarted(pod, main):
		outcome.Phase = batchv1beta1.ReplicaPhaseFailed
	case pod.Status.Phase == corev1.PodUnknown:
		outcome.Phase = batchv1beta1.ReplicaPhaseUnknown
	case main != nil && main.State.Running != nil:
		outcome.Phase = batchv1beta1.ReplicaPhaseRunning
		outcome.Ready = main.Ready && !outcome.Terminating && !notReady(pod)
	default:
		outcome.Phase = batchv1beta1.ReplicaPhasePending
	}
	if outcome.Phase == batchv1beta1.ReplicaPhaseFailed {
		outcome.Failure = failureOf(pod, main, devices)
		outcome.Failure.Ignored = outcome.Disruption != "" || !HasStarted(pod) ||
			IsNodeFault(outcome.Failure.Reason)
	}
	return outcome
}

// clockTolerance is the tolerated difference between the clocks of the kubelet and of the API server, including
// rounding to seconds. A container counts as ended before the deletion of its pod only if it ended earlier by more
// than this time.
const clockTolerance = 2 * time.Second

// endedBeforeDeletion reports whether the main container ended by itself before somebody deleted the pod. Such a pod
// can still exist because a sidecar runs.
func endedBeforeDeletion(pod *corev1.Pod, main *corev1.ContainerStatus) bool {
	return main != nil && main.State.Terminated != nil &&
		main.State.Terminated.FinishedAt.Add(clockTolerance).Before(DeletedAt(pod))
}

// DeletedAt returns when the deletion of a pod was requested: its deletion timestamp minus the grace period. The pod
// must have a deletion timestamp.
func DeletedAt(pod *corev1.Pod) time.Time {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return pod.DeletionTimestamp.Add(-grace)
}

// wasRestarted reports whether the kubelet restarted the main container of a live pod. In this case, the replica has
// failed, and the exit before the restart is its failure. The restart of the container does not repair the job:
// backoffLimit does not count it, and the peers do not restart with the container.
func wasRestarted(pod *corev1.Pod, main *corev1.ContainerStatus) bool {
	isLive := pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
	return isLive && main != nil && main.State.Terminated == nil &&
		(main.RestartCount > 0 || main.LastTerminationState.Terminated != nil)
}

// endedByKubelet reports whether the kubelet ended the container, for example to protect the node, or because the pod
// exceeded a limit. In this case, exit code 0 does not mean that the program has finished: it might only have saved
// its work on SIGTERM.
func endedByKubelet(pod *corev1.Pod, main *corev1.ContainerStateTerminated) bool {
	if c := disruptionTarget(pod); c != nil && c.Reason == corev1.PodReasonTerminationByKubelet {
		return !main.FinishedAt.Before(&c.LastTransitionTime) // an earlier end has another cause
	}
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != ""
}

func failureOf(
	pod *corev1.Pod, main *corev1.ContainerStatus, devices []batchv1beta1.UnhealthyDevice,
) *Failure {
	failure := &Failure{
		Message: report.Truncated(strings.TrimSpace(pod.Status.Message), report.MaxNote), Devices: devices,
		Time: lastTransition(pod),
	}
	if failure.Message == "" && wasRestarted(pod, main) {
		failure.Message = "the main container was restarted in its pod"
	}
	containerReason := ""
	if ended, init := endedContainer(pod, main); ended != nil {
		switch {
		case isLost(ended):
			containerReason = batchv1beta1.ReasonNodeLost
			failure.Message = cmp.Or(failure.Message, "the node lost the container, as after a restart of the node")
		case ended.ExitCode != 0:
			failure.ExitCode, containerReason = new(ended.ExitCode), ended.Reason
		}
		if failure.Init = init != ""; failure.Init {
			failure.Message = cmp.Or(failure.Message, "the init container "+init+" failed")
		}
		failure.Report = trainlog.Read(outputOf(ended))
		failure.Output, failure.Report.Text = lastLines(strings.TrimSpace(failure.Report.Text), MaxOutput), ""
		if !ended.FinishedAt.IsZero() {
			failure.Time = ended.FinishedAt.Time
		}
	}
	if c := disruptionTarget(pod); c != nil && !c.LastTransitionTime.IsZero() &&
		c.LastTransitionTime.Time.Before(failure.Time) {
		// The disruption began before the container ended, and can have caused failures of peers in between.
		failure.Time = c.LastTransitionTime.Time
	}
	if len(devices) > 0 && containerReason != batchv1beta1.ReasonOOMKilled {
		containerReason = batchv1beta1.ReasonDeviceUnhealthy // a program exits with an error if it loses a device
	}
	// The most specific reason wins: first the reason of the pod (such as Evicted), then the disruption, then the reason
	// of the container. The container of an evicted or disrupted pod only has the reason Error.
	ofPod := cmp.Or(podReasons[pod.Status.Reason], pod.Status.Reason, Disruption(pod))
	failure.Reason = cmp.Or(ofPod, containerReason, batchv1beta1.ReasonError)
	if ofPod == "" && failure.Reason == batchv1beta1.ReasonNodeLost {
		failure.Time = time.Time{} // the runtime only reports when it noticed that the container was gone
	}
	return failure
}

// MaxOutput is the maximum size of the output in a Failure, in bytes. It equals the kubelet's limit for a termination
// message.
const MaxOutput = 4096

// lastLines returns as many whole lines from the end of a text as fit into the given number of bytes. If not even the
// last line fits, lastLines returns the end of that line.
func lastLines(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-most:], "")
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return text
}

// podReasons maps the kubelet's reasons for ending a pod to reasons in the status of a job.
var podReasons = map[string]string{
	"Terminated": batchv1beta1.ReasonNodeShutdown,
	"Preempting": batchv1beta1.ReasonPreempted,
}

// lastTransition returns the latest transition time of the pod's conditions, or the pod's creation time if that is
// later.
func lastTransition(pod *corev1.Pod) time.Time {
	last := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

// outputOf returns the termination message of a container, which can be the tail of its output. It returns "" if the
// runtime has lost the container. It also returns "" if the kubelet could not read the output: the message is then an
// error of the kubelet, which can contain paths of the node.
func outputOf(ended *corev1.ContainerStateTerminated) string {
	if isLost(ended) || strings.HasPrefix(ended.Message, "Error on reading termination") {
		return ""
	}
	return strings.TrimSpace(ended.Message)
}

// isLost reports whether the container runtime of the node has lost the container. After a node was restarted without
// a shutdown, containerd reports the reason Unknown for its containers. If a pod ends and the runtime no longer knows
// one of its containers, the kubelet reports ContainerStatusUnknown. In both cases, the exit code is not the
// program's.
func isLost(ended *corev1.ContainerStateTerminated) bool {
	return ended.Reason == "Unknown" || ended.Reason == "ContainerStatusUnknown"
}

// endedContainer returns the termination state of the main container, or of its last run if it was restarted. If the
// main container has never ended, endedContainer returns the state and the name of the init container that failed. If
// no init container has failed, the state is nil.
func endedContainer(pod *corev1.Pod, main *corev1.ContainerStatus) (
	state *corev1.ContainerStateTerminated, init string,
) {
	if main != nil && main.State.Terminated != nil {
		return main.State.Terminated, ""
	}
	if main != nil && main.LastTerminationState.Terminated != nil {
		return main.LastTerminationState.Terminated, ""
	}
	// Init containers start one after another, so only the last that ended with an error can have failed by itself.
	// Earlier ones with an error are sidecars that the kubelet ended with the pod.
	for _, init := range slices.Backward(pod.Status.InitContainerStatuses) {
		if ended := init.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ended, init.Name
		}
	}
	return nil, ""
}

// HasStarted reports whether a container of the pod has started.
func HasStarted(pod *corev1.Pod) bool {
	started := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil ||
			s.RestartCount > 0
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, started) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, started)
}

// notReady reports whether the condition Ready of the pod is False. It is False if the pod fails its probes, or if
// its node does not respond. Nothing else in the pod shows that its node does not respond.
func notReady(pod *corev1.Pod) bool {
	return ConditionOf(pod, corev1.PodReady).Status == corev1.ConditionFalse
}
