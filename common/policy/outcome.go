// Package policy holds the rules that common/plan applies, each a pure function in a file of its own: no client, no
// clock, no logger. The contract that they implement is the API reference of the job kinds.
package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/launcher"
	"tensorstack.dev/jobs/common/report"
)

// Outcome is how one pod of a replica stands.
type Outcome struct {
	// Phase of the replica.
	Phase batchv1beta1.ReplicaPhase
	// Ready says that the main container runs and passes its readiness probe.
	Ready bool
	// Terminating reports whether the pod is being deleted and its main container had not ended before. Its end then
	// means nothing for the job.
	Terminating bool
	// Disruption is why Kubernetes ends the pod for reasons of its own: Preempted, Evicted, NodeLost, ... Empty if it does
	// not.
	Disruption string
	// Failure is set if Phase is Failed.
	Failure *Failure
}

// Failure is why a replica failed.
type Failure struct {
	// ExitCode of the main container, or of the init container that failed. Nil if no container ended with an error.
	ExitCode *int32
	// Init says that it was an init container, so that the main container has not run.
	Init bool
	// Reason as the kubelet says it, or the disruption.
	Reason string
	// Output is what matters of the tail of what the container printed, or of the message that it left.
	Output string
	// Report is what the output tells about the process that failed first. Its text is Output.
	Report launcher.Report
	// Message is what the kubelet says of the pod, such as why it evicted it, in at most report.MaxNote bytes.
	Message string
	// Time of the failure.
	Time time.Time
	// Ignored reports whether a restart after the failure does not count towards backoffLimit, as with the action Ignore
	// of a podFailurePolicy: the program was not to blame. The failure is still recorded, delays the restart, and ends the
	// job if the restart policy is Never.
	Ignored bool
}

// Detail returns what is known of the failure: what the kubelet says, then what the container printed.
func (f Failure) Detail() string {
	return strings.Join(slices.DeleteFunc([]string{f.Message, f.Output}, func(s string) bool { return s == "" }), "\n")
}

// Judge says how a replica stands, given its pod and the name of its main container. No pod is Creating.
func Judge(pod *corev1.Pod, mainContainer string) Outcome {
	if pod == nil {
		return Outcome{Phase: batchv1beta1.ReplicaPhaseCreating}
	}
	main := containerStatus(pod.Status.ContainerStatuses, mainContainer)
	outcome := Outcome{
		//mutant:what ended before its pod was deleted does not count => Terminating: pod.DeletionTimestamp != nil,
		Terminating: pod.DeletionTimestamp != nil && !endedBeforeDeletion(pod, main),
		Disruption:  Disruption(pod),
	}
	switch {
	case main != nil && main.State.Terminated != nil:
		// Sidecars may run on: the main container's exit is the replica's outcome.
		outcome.Phase = batchv1beta1.ReplicaPhaseSucceeded
		if main.State.Terminated.ExitCode != 0 || endedByKubelet(pod, main.State.Terminated) {
			outcome.Phase = batchv1beta1.ReplicaPhaseFailed
		}
	case pod.Status.Phase == corev1.PodFailed:
		outcome.Phase = batchv1beta1.ReplicaPhaseFailed
	case pod.Status.Phase == corev1.PodSucceeded:
		outcome.Phase = batchv1beta1.ReplicaPhaseSucceeded
	//mutant:containers: one that restarts in its pod goes on => case false:
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
		outcome.Failure = failureOf(pod, main)
		outcome.Failure.Ignored = outcome.Disruption != "" || !anyContainerStarted(pod)
	}
	return outcome
}

// clockTolerance is by how much the end of a container must precede the deletion of its pod to be taken for earlier.
// The kubelet and the API server report whole seconds, each by a clock of its own.
const clockTolerance = 2 * time.Second

// endedBeforeDeletion reports whether the main container ended by itself before somebody deleted the pod. A container
// that runs beside it may keep such a pod.
func endedBeforeDeletion(pod *corev1.Pod, main *corev1.ContainerStatus) bool {
	return main != nil && main.State.Terminated != nil &&
		main.State.Terminated.FinishedAt.Add(clockTolerance).Before(DeletedAt(pod))
}

// DeletedAt returns when the deletion of a pod was requested. The pod must have a deletion timestamp, which is later by
// the grace period.
func DeletedAt(pod *corev1.Pod) time.Time {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return pod.DeletionTimestamp.Add(-grace)
}

// wasRestarted reports whether the kubelet restarted the main container of a live pod. The first end is the replica's:
// no limit counts the restarts of the kubelet, and the peers of the replica do not restart with it.
func wasRestarted(pod *corev1.Pod, main *corev1.ContainerStatus) bool {
	//equivalent:always pod.Status.Phase != corev1.PodSucceeded => only an ended main container failed in such a pod
	isLive := pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
	return isLive && main != nil && main.State.Terminated == nil &&
		(main.RestartCount > 0 || main.LastTerminationState.Terminated != nil)
}

// endedByKubelet says that the kubelet ended the container for the node's sake or for the pod's use of the node. A
// program that saves its work on SIGTERM and exits 0 has then not finished it.
func endedByKubelet(pod *corev1.Pod, main *corev1.ContainerStateTerminated) bool {
	if c := disruptionTarget(pod); c != nil && c.Reason == corev1.PodReasonTerminationByKubelet {
		return !main.FinishedAt.Before(&c.LastTransitionTime) // it may have finished before
	}
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != ""
}

func failureOf(pod *corev1.Pod, main *corev1.ContainerStatus) *Failure {
	failure := &Failure{
		Message: report.Truncated(strings.TrimSpace(pod.Status.Message), report.MaxNote), Time: lastTransition(pod),
	}
	if failure.Message == "" && wasRestarted(pod, main) {
		failure.Message = "the main container was restarted in its pod"
	}
	containerReason := ""
	if ended := endedContainer(pod, main); ended != nil {
		if ended.ExitCode != 0 {
			failure.ExitCode, containerReason = new(ended.ExitCode), ended.Reason
		}
		failure.Init = main == nil || main.State.Terminated == nil && main.LastTerminationState.Terminated == nil
		failure.Report = launcher.Read(outputOf(ended))
		failure.Output, failure.Report.Text = lastLines(strings.TrimSpace(failure.Report.Text), MaxOutput), ""
		if !ended.FinishedAt.IsZero() {
			failure.Time = ended.FinishedAt.Time
		}
	}
	if c := disruptionTarget(pod); c != nil && !c.LastTransitionTime.IsZero() &&
		c.LastTransitionTime.Time.Before(failure.Time) {
		failure.Time = c.LastTransitionTime.Time // its end was begun then, and its peers may have died of it since
	}
	// The pod's own reason (Evicted) says more than the disruption, and that more than the container's, which is then
	// Error.
	failure.Reason = cmp.Or(podReasons[pod.Status.Reason], pod.Status.Reason, Disruption(pod), containerReason,
		batchv1beta1.ReasonError)
	return failure
}

// MaxOutput is how much of a container's output is kept, in bytes: as much as the kubelet keeps.
const MaxOutput = 4096

// lastLines returns the last whole lines of a text, in at most the given number of bytes. A line that is longer is cut
// at its beginning.
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

// podReasons says in our words what the kubelet gives as the reason of a pod that it ended.
var podReasons = map[string]string{
	"Terminated": batchv1beta1.ReasonNodeShutdown,
	"Preempting": batchv1beta1.ReasonPreempted,
}

// lastTransition returns when the pod last changed in a way that its conditions show.
func lastTransition(pod *corev1.Pod) time.Time {
	last := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

// outputOf returns the tail of what a container printed, or the message that it left. What the kubelet says where it
// has neither is not the container's, and names paths of the node.
func outputOf(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == containerStatusUnknown || strings.HasPrefix(ended.Message, "Error on reading termination") {
		return ""
	}
	return strings.TrimSpace(ended.Message)
}

// containerStatusUnknown is the reason of the end of a container that the runtime no longer knew when its pod ended.
// The kubelet reports such an end as the last state of a container that waits.
const containerStatusUnknown = "ContainerStatusUnknown"

// endedContainer returns the end of the main container, else that of the init container that failed, else nil.
func endedContainer(pod *corev1.Pod, main *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if main != nil && main.State.Terminated != nil {
		return main.State.Terminated
	}
	if main != nil && main.LastTerminationState.Terminated != nil {
		return main.LastTerminationState.Terminated
	}
	// The last, since one starts when those before it have ended or are sidecars, which the kubelet ends with the pod.
	for _, init := range slices.Backward(pod.Status.InitContainerStatuses) {
		if ended := init.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ended
		}
	}
	return nil
}

func anyContainerStarted(pod *corev1.Pod) bool {
	started := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil ||
			s.RestartCount > 0
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, started) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, started)
}

// notReady says that the pod does not pass its probes, or that its node does not answer: then only this condition
// tells.
func notReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
}

func containerStatus(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
