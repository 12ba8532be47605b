package framework

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// TensorBoardJob is a Job that may own a TensorBoard, which shows its training logs.
type TensorBoardJob interface {
	Job

	// TensorBoardSpec returns what the job wants of its TensorBoard, or nil if it wants none.
	TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec

	// TensorBoardStatus returns what the status says of the TensorBoard, or nil if it says nothing. It is not changed in
	// place.
	TensorBoardStatus() *batchv1beta1.DependentStatus

	// SetTensorBoardStatus sets what the status says of the TensorBoard, nil for nothing.
	SetTensorBoardStatus(status *batchv1beta1.DependentStatus)
}
