package dependents

import (
	"sigs.k8s.io/controller-runtime/pkg/event"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// RetryDelay exports retryDelay for tests.
const RetryDelay = retryDelay

// The transform functions of the caches.
var (
	TransformPodGroup    = podGroupKind().transform
	TransformTensorBoard = tensorBoardKind().transform
	TransformWorkload    = workloadKind().transform
)

// PodGroupWakes reports whether an update of a PodGroup requeues its job.
func PodGroupWakes(before, after *schedulerv1beta1.PodGroup) bool {
	update := event.TypedUpdateEvent[*schedulerv1beta1.PodGroup]{ObjectOld: before, ObjectNew: after}
	return podGroupKind().changes().Update(update)
}

// TensorBoardWakes reports whether an update of a TensorBoard requeues its job.
func TensorBoardWakes(before, after *tensorboardv1beta1.TensorBoard) bool {
	update := event.TypedUpdateEvent[*tensorboardv1beta1.TensorBoard]{ObjectOld: before, ObjectNew: after}
	return tensorBoardKind().changes().Update(update)
}

// WorkloadWakes reports whether an update of a Workload requeues its job.
func WorkloadWakes(before, after *kueuev1beta2.Workload) bool {
	update := event.TypedUpdateEvent[*kueuev1beta2.Workload]{ObjectOld: before, ObjectNew: after}
	return workloadKind().changes().Update(update)
}
