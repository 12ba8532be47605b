package pytorch

import (
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// leaderType is the type of the leader in every job that has replicas of this type.
const leaderType = "master"

// elasticOf returns the elastic configuration of the job, or nil if the job is not elastic. Elastic training needs
// torchrun.
func elasticOf(job *v1beta1.PyTorchTrainingJob) *batchv1beta1.ElasticConfig {
	if elastic := job.Spec.Elastic; elastic != nil && elastic.Enabled && job.RunsTorchrun() {
		return elastic
	}
	return nil
}

// firstProcess returns where the process of rank 0 can run. The result for a job without torchrunConfig is the same
// as for the backend c10d, because the command of the user might run torchrun, and c10d is the usual backend.
func firstProcess(job *v1beta1.PyTorchTrainingJob) framework.FirstProcess {
	if job.RunsTorchrun() && rendezvousBackend(*job.Spec.TorchrunConfig) != c10d {
		return framework.FirstProcessAnywhere
	}
	return framework.FirstProcessByName
}

func (pytorch) JobSpec(job *v1beta1.PyTorchTrainingJob) framework.JobSpec {
	roles := make([]framework.Role, 0, len(job.Spec.ReplicaSpecs))
	for i := range job.Spec.ReplicaSpecs {
		r := &job.Spec.ReplicaSpecs[i]
		replicas := ptr.Deref(r.Replicas, 1)
		roles = append(roles, framework.Role{
			Type:          r.Type,
			Replicas:      replicas,
			ScalingWeight: ptr.Deref(r.ScalingWeight, replicas),
			RestartPolicy: r.RestartPolicy,
			Template:      &r.Template,
		})
	}
	spec := framework.JobSpec{
		RunPolicy:           job.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RanksAreReplicas:    !job.RunsTorchrun(),
		RunMode:             job.Spec.RunMode,
		Elastic:             elasticOf(job),
		Scheduler:           job.Spec.Scheduler,
		ManagedBy:           ptr.Deref(job.Spec.ManagedBy, ""),
		ReportsProgress:     job.Spec.Progress.Reports(),
		FirstProcess:        firstProcess(job),
		RestartsInPlace:     isSupervised(job) && hasBudget(job),
	}
	switch {
	case spec.Elastic != nil:
		roles = policy.Scale(leaderType, roles, spec.Elastic.Expected())
		// The leader hosts the rendezvous, and a torchrun agent that gives up closes the rendezvous for all later agents.
		// So all replicas must restart after a failure of the leader, and after the failure of such an agent.
		spec.DefaultRestartScope = batchv1beta1.RestartScopeRendezvous
	case job.Spec.Elastic != nil && job.Spec.Elastic.Enabled:
		spec.Notice = "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
	}
	if spec.Notice == "" && !job.RunsTorchrun() {
		spec.Notice = noticeAlone(roles)
	}
	spec.Roles = framework.LeaderFirst(leaderType, roles)
	return spec
}
