package plan

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// EndsRun reports whether a decision ends the run of a job: its status is the first with which the job has finished and
// no replica runs. Objects that the replicas share can be deleted before that status is written.
func EndsRun(job view.Job, d Decision) bool {
	return isOver(d.Status) && !isOver(job.Status)
}

// isOver reports whether a job has finished and no replica runs.
func isOver(status batchv1beta1.JobStatus) bool {
	if !status.Finished() {
		return false
	}
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			if !view.HasEnded(r.Phase) && r.Phase != batchv1beta1.ReplicaPhaseDeleted {
				return false
			}
		}
	}
	return true
}
