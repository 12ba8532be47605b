package plan

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// EndsRun reports whether a decision ends the run of a job: the job is over according to the status of the decision,
// but not according to its present status. Before the controller writes the status of the decision, it can delete
// objects that only replicas use, such as a Secret.
func EndsRun(job view.Job, d Decision) bool {
	return isOver(d.Status) && !isOver(job.Status)
}

// isOver reports whether a job has finished, and each of its replicas has ended or was deleted.
func isOver(status batchv1beta1.JobStatus) bool {
	if !status.Finished() {
		return false
	}
	for r := range status.EachReplica() {
		if !view.HasEnded(r.Phase) && r.Phase != batchv1beta1.ReplicaPhaseDeleted {
			return false
		}
	}
	return true
}
