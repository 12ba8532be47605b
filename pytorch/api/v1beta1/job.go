package v1beta1

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// JobStatus implements framework.Job.
func (j *PyTorchTrainingJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}

// RunsTorchrun reports whether the controller runs torchrun in the replicas of the job, instead of the command of the
// template.
func (j *PyTorchTrainingJob) RunsTorchrun() bool {
	return j.Spec.TorchrunConfig != nil && j.Spec.TorchrunConfig.Enabled
}

// TensorBoardSpec implements framework.TensorBoardJob.
func (j *PyTorchTrainingJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec {
	return j.Spec.TensorBoardSpec
}

// TensorBoardStatus implements framework.TensorBoardJob.
func (j *PyTorchTrainingJob) TensorBoardStatus() *batchv1beta1.DependentStatus {
	return j.Status.TensorBoard
}

// SetTensorBoardStatus implements framework.TensorBoardJob.
func (j *PyTorchTrainingJob) SetTensorBoardStatus(status *batchv1beta1.DependentStatus) {
	j.Status.TensorBoard = status
}
