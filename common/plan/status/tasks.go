package status

import (
	"fmt"
	"maps"
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// setTasks sets the replicas in the status.
func (r *renderer) setTasks() {
	if !r.updatesTasks() {
		return
	}
	r.announceScale()
	restarts := map[string]int32{}
	maps.Copy(restarts, r.facts.RestartCounts)
	for _, task := range r.Job.Status.Tasks {
		restarts[task.Type] += task.RestartCount
	}
	r.Status.Tasks = make([]batchv1beta1.TaskStatus, 0, len(r.Roles))
	r.Status.Aggregate = &batchv1beta1.Aggregate{}
	r.Status.Replicas = 0
	ready := 0
	for _, role := range r.Roles {
		task := batchv1beta1.TaskStatus{
			Type: role.Type, RestartCount: restarts[role.Type],
		}
		task.Replicas = slices.Grow(task.Replicas, int(role.Replicas))
		for _, replica := range r.Replicas {
			if replica.Member.Role.Type != role.Type {
				continue
			}
			entry := r.entryOf(replica)
			task.Replicas = append(task.Replicas, entry)
			countPhase(r.Status.Aggregate, entry.Phase)
			if replica.Pod != nil {
				r.Status.Replicas++
			}
			if r.countsAsReady(replica, entry.Phase) {
				ready++
			}
		}
		r.Status.Tasks = append(r.Status.Tasks, task)
	}
	if !r.Job.Status.Finished() { // the count of a finished job is final
		r.Status.Ready = fmt.Sprintf("%d/%d", ready, len(r.Replicas))
	}
}

// updatesTasks reports whether the replicas in the status change. While the controller waits for failures of the
// peers, the replicas change only once. After the decision about the end of a job, they change only when the job
// finishes and when it is cleaned up. If a started job has no replicas anymore, its tasks stay as they are: if the
// tasks recorded a failure now, this failure would not be counted.
func (r *renderer) updatesTasks() bool {
	f := r.facts
	switch f.Action {
	case decide.Hold:
		return f.StartTime == nil
	case decide.AwaitRootCause:
		return f.RecordsFailure
	case decide.End, decide.CleanUp:
		return f.Finishes || f.CleanedUp
	default:
		return true
	}
}

// countsAsReady reports whether a replica is running and ready, or has succeeded. If the job has succeeded, every
// replica counts.
func (r *renderer) countsAsReady(replica *view.Replica, phase batchv1beta1.ReplicaPhase) bool {
	return r.facts.Finishes && view.IsSuccess(r.facts.End) || phase == batchv1beta1.ReplicaPhaseSucceeded ||
		replica.Outcome.Ready && !replica.IsObsolete()
}

// entryOf returns the entry of a replica in the status.
func (r *renderer) entryOf(replica *view.Replica) batchv1beta1.ReplicaStatus {
	if r.facts.Finishes || r.Job.Status.Finished() {
		return finalEntry(replica, r.Job.Spec.RunPolicy)
	}
	entry := entryOfPod(replica)
	if r.isDeletedByPause() {
		entry.Phase = batchv1beta1.ReplicaPhaseDeleted
	}
	return entry
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
