package v1beta1

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// JobStatus implements framework.Job.
func (j *ZebraTrainingJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}
