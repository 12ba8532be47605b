package v1beta1

import (
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// LeaderType is the replica type that leads wherever it is used.
const LeaderType = "master"

// UsesTorchrun says whether the training is launched with torchrun.
func (j *PyTorchTrainingJob) UsesTorchrun() bool {
	return j.Spec.TorchrunConfig != nil && j.Spec.TorchrunConfig.Enabled
}

// Elastic returns how the job scales, or nil if it does not: elastic training is effective only with torchrun.
func (j *PyTorchTrainingJob) Elastic() *batchv1beta1.ElasticConfig {
	if elastic := j.Spec.Elastic; elastic != nil && elastic.Enabled && j.UsesTorchrun() {
		return elastic
	}
	return nil
}

// JobSpec is part of framework.Job.
func (j *PyTorchTrainingJob) JobSpec() batchv1beta1.JobSpec {
	roles := make([]batchv1beta1.Role, 0, len(j.Spec.ReplicaSpecs))
	for i := range j.Spec.ReplicaSpecs {
		r := &j.Spec.ReplicaSpecs[i]
		replicas := ptr.Deref(r.Replicas, 1)
		roles = append(roles, batchv1beta1.Role{
			Type:          r.Type,
			Replicas:      replicas,
			ScalingWeight: ptr.Deref(r.ScalingWeight, replicas),
			RestartPolicy: r.RestartPolicy,
			Template:      &r.Template,
		})
	}
	spec := batchv1beta1.JobSpec{
		RunPolicy:           j.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             j.Spec.RunMode,
		Elastic:             j.Elastic(),
		Scheduler:           j.Spec.Scheduler,
	}
	switch {
	case spec.Elastic != nil:
		roles = policy.Scale(LeaderType, roles, spec.Elastic.Expected())
		spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
		spec.Rendezvous = true // an agent of torchrun that gives up closes it for those that come after, and the leader hosts it
	case j.Spec.Elastic != nil && j.Spec.Elastic.Enabled:
		spec.Notice = "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
	}
	spec.Roles = batchv1beta1.LeaderFirst(LeaderType, roles)
	return spec
}

// JobStatus is part of framework.Job.
func (j *PyTorchTrainingJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}

// TensorBoardSpec is part of framework.TensorBoardJob.
func (j *PyTorchTrainingJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec {
	return j.Spec.TensorBoardSpec
}

// TensorBoardStatus is part of framework.TensorBoardJob.
func (j *PyTorchTrainingJob) TensorBoardStatus() *batchv1beta1.DependentStatus {
	return j.Status.TensorBoard
}

// SetTensorBoardStatus is part of framework.TensorBoardJob.
func (j *PyTorchTrainingJob) SetTensorBoardStatus(status *batchv1beta1.DependentStatus) {
	j.Status.TensorBoard = status
}
