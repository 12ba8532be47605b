package v1beta1

import (
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// JobSpec is part of framework.Job.
func (j *TensorFlowTrainingJob) JobSpec() batchv1beta1.JobSpec {
	spec := batchv1beta1.JobSpec{
		RunPolicy:           j.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             j.Spec.RunMode,
		Scheduler:           j.Spec.Scheduler,
	}
	roles := make([]batchv1beta1.Role, 0, len(j.Spec.ReplicaSpecs))
	for i := range j.Spec.ReplicaSpecs {
		r := &j.Spec.ReplicaSpecs[i]
		role := batchv1beta1.Role{
			Type:          string(r.Type),
			Replicas:      ptr.Deref(r.Replicas, 1),
			RestartPolicy: r.RestartPolicy,
			Template:      &r.Template,
			Awaited:       r.Type.InCluster(),
		}
		if r.Type == ReplicaTypePS && role.Replicas > 0 {
			spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica // what the workers share outlives any of them
		}
		roles = append(roles, role)
	}
	roles = batchv1beta1.LeaderFirst(string(ReplicaTypeWorker), roles)
	spec.Roles = batchv1beta1.LeaderFirst(string(ReplicaTypeChief), roles)
	return spec
}

// JobStatus is part of framework.Job.
func (j *TensorFlowTrainingJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}

// TensorBoardSpec is part of framework.TensorBoardJob.
func (j *TensorFlowTrainingJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec {
	return j.Spec.TensorBoardSpec
}

// TensorBoardStatus is part of framework.TensorBoardJob.
func (j *TensorFlowTrainingJob) TensorBoardStatus() *batchv1beta1.DependentStatus {
	return j.Status.TensorBoard
}

// SetTensorBoardStatus is part of framework.TensorBoardJob.
func (j *TensorFlowTrainingJob) SetTensorBoardStatus(status *batchv1beta1.DependentStatus) {
	j.Status.TensorBoard = status
}
