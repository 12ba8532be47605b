package framework

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// TensorBoardJob is a Job that can own a TensorBoard. The TensorBoard shows the training logs of the job.
type TensorBoardJob interface {
	Job

	// TensorBoardSpec returns the spec of the job's TensorBoard, or nil if the job has none.
	TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec

	// TensorBoardStatus returns the entry for the TensorBoard in the job's status, or nil if there is none. Callers must
	// not change it.
	TensorBoardStatus() *batchv1beta1.DependentStatus

	// SetTensorBoardStatus sets the entry for the TensorBoard in the job's status. Nil removes it.
	SetTensorBoardStatus(status *batchv1beta1.DependentStatus)
}
