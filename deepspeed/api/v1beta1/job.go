package v1beta1

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// WorkerType is the only type of replicas of a job. Worker 0 runs the launcher.
const WorkerType = "worker"

// JobStatus implements framework.Job.
func (j *DeepSpeedJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}
