package status

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// entryOfPod returns the entry of a replica in the status, according to its pod.
func entryOfPod(r *view.Replica) batchv1beta1.ReplicaStatus {
	entry := batchv1beta1.ReplicaStatus{
		Name:        r.Member.Name,
		Phase:       batchv1beta1.ReplicaPhaseCreating,
		Attempt:     r.Recorded.Attempt,
		RestartTime: r.Recorded.RestartTime,
	}
	if r.Done || r.Outdated {
		return r.Recorded
	}
	if !r.IsCurrent() {
		return entry
	}
	entry.UID = r.Pod.UID
	entry.Phase = r.Outcome.Phase
	switch {
	case r.Failure() != nil: // also true while a disrupted pod still runs
		entry.Phase = batchv1beta1.ReplicaPhaseFailed
	case r.Outcome.Terminating && (view.HasEnded(entry.Phase) || goesOnWithout(r)):
		// The exit of a pod that somebody deleted does not count.
		entry.Phase = batchv1beta1.ReplicaPhaseCreating
	}
	entry.Node = r.Pod.Spec.NodeName
	entry.RestartTime = nil
	for _, c := range r.Pod.Status.ContainerStatuses {
		entry.Containers = append(entry.Containers, containerStatus(withFirstEnd(r, c)))
	}
	return entry
}

// withFirstEnd returns the status of a container. If the kubelet has restarted the main container, the result shows
// how the container ended before the restart, because the replica failed with that end.
func withFirstEnd(r *view.Replica, c corev1.ContainerStatus) corev1.ContainerStatus {
	ended := c.LastTerminationState
	hasRestarted := c.Name == r.MainContainer && c.State.Terminated == nil && ended.Terminated != nil
	if hasRestarted {
		c.State = ended
	}
	return c
}

// finalEntry returns the entry of a replica of a finished job. While its current pod exists and is not being deleted,
// the entry shows the state of the pod. After that, the phase is Deleted if the replica had not ended, or if the
// clean-up policy is All. Otherwise, the entry still shows how the replica ended.
func finalEntry(r *view.Replica, run batchv1beta1.RunPolicy) batchv1beta1.ReplicaStatus {
	if r.IsCurrent() && !r.Outcome.Terminating {
		return entryOfPod(r)
	}
	entry := r.Recorded
	entry.RestartTime = nil
	if !view.HasEnded(entry.Phase) || run.CleanUpPolicy == batchv1beta1.CleanUpPolicyAll {
		entry.Phase = batchv1beta1.ReplicaPhaseDeleted
	}
	return entry
}

func containerStatus(c corev1.ContainerStatus) batchv1beta1.ContainerStatus {
	status := batchv1beta1.ContainerStatus{Name: c.Name, State: batchv1beta1.ContainerWaiting}
	switch {
	case c.State.Terminated != nil:
		status.State, status.ExitCode = batchv1beta1.ContainerTerminated, new(c.State.Terminated.ExitCode)
		status.Reason = report.Truncated(c.State.Terminated.Reason, maxReason)
	case c.State.Running != nil:
		status.State = batchv1beta1.ContainerRunning
	case c.State.Waiting != nil:
		status.Reason = report.Truncated(c.State.Waiting.Reason, maxReason)
	}
	return status
}
