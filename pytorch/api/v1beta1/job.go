package v1beta1

import (
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// LeaderType is the replica type that leads wherever it is used.
const LeaderType = "master"

// UsesTorchrun says whether the training is launched with torchrun.
func (j *PyTorchTrainingJob) UsesTorchrun() bool {
	return j.Spec.TorchrunConfig != nil && j.Spec.TorchrunConfig.Enabled
}

// JobSpec is part of framework.Job. Elastic scaling is effective only with torchrun.
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
		Roles:               batchv1beta1.LeaderFirst(LeaderType, roles),
		RunPolicy:           j.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             j.Spec.RunMode,
		Scheduler:           j.Spec.Scheduler,
	}
	switch elastic := j.Spec.Elastic; {
	case elastic == nil || !elastic.Enabled:
	case j.UsesTorchrun():
		spec.Elastic = elastic
		spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
	default:
		spec.Notice = "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
	}
	return spec
}

// JobStatus is part of framework.Job.
func (j *PyTorchTrainingJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}
