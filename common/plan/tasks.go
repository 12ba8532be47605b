package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// setTasks updates the replicas in the status. It emits an event if an elastic job has been scaled.
func (s *steps) setTasks() {
	s.hasSetTasks = true
	s.announceScale()
	restarts := map[string]int32{}
	for _, task := range s.job.Status.Tasks {
		restarts[task.Type] = task.RestartCount
	}
	s.Status.Tasks = make([]batchv1beta1.TaskStatus, 0, len(s.roles))
	s.Status.Aggregate = &batchv1beta1.Aggregate{}
	s.Status.Replicas = 0
	ready := 0
	for _, role := range s.roles {
		task := batchv1beta1.TaskStatus{Type: role.Type, RestartCount: restarts[role.Type] + s.restartCounts[role.Type]}
		task.Replicas = slices.Grow(task.Replicas, int(role.Replicas))
		for _, r := range s.replicas {
			if r.member.Role.Type != role.Type {
				continue
			}
			entry := s.entryOf(r)
			task.Replicas = append(task.Replicas, entry)
			countPhase(s.Status.Aggregate, entry.Phase)
			if r.pod != nil {
				s.Status.Replicas++
			}
			if s.countsAsReady(r, entry.Phase) {
				ready++
			}
		}
		s.Status.Tasks = append(s.Status.Tasks, task)
	}
	if !s.job.Status.Finished() { // the count of a finished job is final
		s.Status.Ready = fmt.Sprintf("%d/%d", ready, len(s.replicas))
	}
}

// countsAsReady reports whether a replica is running and ready, or has succeeded. If the job has succeeded, every
// replica counts.
func (s *steps) countsAsReady(r *replica, phase batchv1beta1.ReplicaPhase) bool {
	return s.Status.Phase == batchv1beta1.JobPhaseSucceeded || phase == batchv1beta1.ReplicaPhaseSucceeded ||
		r.outcome.Ready && !r.obsolete()
}

// entryOf returns the entry of a replica in the status.
func (s *steps) entryOf(r *replica) batchv1beta1.ReplicaStatus {
	if s.Status.Finished() {
		return r.finalEntry(s.job.Spec.RunPolicy)
	}
	entry := r.entry()
	if s.job.Spec.RunMode.Pausing() && s.Status.StartTime == nil && s.Status.Pauses+s.Status.Evictions > 0 {
		entry.Phase = batchv1beta1.ReplicaPhaseDeleted
	}
	return entry
}

// entry returns the entry of the replica in the status, according to its pod.
func (r *replica) entry() batchv1beta1.ReplicaStatus {
	entry := batchv1beta1.ReplicaStatus{
		Name:        r.member.Name,
		Phase:       batchv1beta1.ReplicaPhaseCreating,
		Attempt:     r.recorded.Attempt,
		RestartTime: r.recorded.RestartTime,
	}
	if r.done || r.outdated {
		return r.recorded
	}
	if !r.isCurrent() {
		return entry
	}
	entry.UID = r.pod.UID
	entry.Phase = r.outcome.Phase
	switch {
	case r.failure() != nil: // even if Kubernetes disrupted the pod and it still runs
		entry.Phase = batchv1beta1.ReplicaPhaseFailed
	case r.outcome.Terminating && (hasEnded(entry.Phase) || r.spec.Elastic != nil):
		// The exit of a pod that somebody deleted does not count. An elastic job continues without the replica, as if
		// the replica had not run yet.
		entry.Phase = batchv1beta1.ReplicaPhaseCreating
	}
	entry.Node = r.pod.Spec.NodeName
	entry.RestartTime = nil
	for _, c := range r.pod.Status.ContainerStatuses {
		entry.Containers = append(entry.Containers, containerStatus(r.withFirstEnd(c)))
	}
	return entry
}

// withFirstEnd returns the status of a container at the time when the replica failed. The kubelet might have restarted
// the main container since then.
func (r *replica) withFirstEnd(c corev1.ContainerStatus) corev1.ContainerStatus {
	ended := c.LastTerminationState
	hasRestarted := c.Name == r.mainContainer && c.State.Terminated == nil && ended.Terminated != nil
	if hasRestarted {
		c.State = ended
	}
	return c
}

// finalEntry returns the entry of a replica of a finished job. It keeps how the replica ended. The phase is Deleted
// only if the clean-up deleted the pod, or would have deleted it.
func (r *replica) finalEntry(run batchv1beta1.RunPolicy) batchv1beta1.ReplicaStatus {
	if r.isCurrent() && !r.outcome.Terminating {
		return r.entry()
	}
	entry := r.recorded
	entry.RestartTime = nil
	if !hasEnded(entry.Phase) || run.CleanUpPolicy == batchv1beta1.CleanUpPolicyAll {
		entry.Phase = batchv1beta1.ReplicaPhaseDeleted
	}
	return entry
}

func containerStatus(c corev1.ContainerStatus) batchv1beta1.ContainerStatus {
	switch {
	case c.State.Terminated != nil:
		return batchv1beta1.ContainerStatus{
			Name: c.Name, State: batchv1beta1.ContainerTerminated,
			ExitCode: new(c.State.Terminated.ExitCode), Reason: report.Truncated(c.State.Terminated.Reason, maxReason),
		}
	case c.State.Running != nil:
		return batchv1beta1.ContainerStatus{Name: c.Name, State: batchv1beta1.ContainerRunning}
	case c.State.Waiting != nil:
		return batchv1beta1.ContainerStatus{
			Name: c.Name, State: batchv1beta1.ContainerWaiting,
			Reason: report.Truncated(c.State.Waiting.Reason, maxReason),
		}
	default:
		return batchv1beta1.ContainerStatus{Name: c.Name, State: batchv1beta1.ContainerWaiting}
	}
}

// countPhase adds a replica in the given phase to an aggregate.
func countPhase(aggregate *batchv1beta1.Aggregate, phase batchv1beta1.ReplicaPhase) {
	switch phase {
	case batchv1beta1.ReplicaPhaseCreating:
		aggregate.Creating++
	case batchv1beta1.ReplicaPhasePending:
		aggregate.Pending++
	case batchv1beta1.ReplicaPhaseRunning:
		aggregate.Running++
	case batchv1beta1.ReplicaPhaseSucceeded:
		aggregate.Succeeded++
	case batchv1beta1.ReplicaPhaseFailed:
		aggregate.Failed++
	case batchv1beta1.ReplicaPhaseDeleted:
		aggregate.Deleted++
	default:
		aggregate.Unknown++
	}
}
