package v1beta1

import (
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// WorkerType is the one type of replicas that a job has. Worker 0 runs the launcher.
const WorkerType = "worker"

// Elastic returns how the job scales, or nil if it does not.
func (j *DeepSpeedJob) Elastic() *batchv1beta1.ElasticConfig {
	if elastic := j.Spec.Elastic; elastic != nil && elastic.Enabled {
		return elastic
	}
	return nil
}

// JobSpec is part of framework.Job.
func (j *DeepSpeedJob) JobSpec() batchv1beta1.JobSpec {
	worker := &j.Spec.Worker
	replicas := ptr.Deref(worker.Replicas, 1)
	roles := []batchv1beta1.Role{{
		Type:          WorkerType,
		Replicas:      replicas,
		ScalingWeight: 1,
		RestartPolicy: worker.RestartPolicy,
		Template:      &worker.Template,
	}}
	spec := batchv1beta1.JobSpec{
		Roles:               roles,
		RunPolicy:           j.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             j.Spec.RunMode,
		Elastic:             j.Elastic(),
		Scheduler:           j.Spec.Scheduler,
		HasLauncher:         true,
	}
	if spec.Elastic != nil {
		spec.Roles = policy.Scale("", roles, spec.Elastic.Expected())
		spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
	}
	return spec
}

// JobStatus is part of framework.Job.
func (j *DeepSpeedJob) JobStatus() *batchv1beta1.JobStatus {
	return &j.Status.JobStatus
}

// Slots returns how many training processes each worker runs.
func (j *DeepSpeedJob) Slots() int32 {
	if j.Spec.Config == nil {
		return 1
	}
	return ptr.Deref(j.Spec.Config.SlotsPerWorker, 1)
}

// Resume returns what resumeSpecs say of the workers, if the job has been paused since it first ran.
func (j *DeepSpeedJob) Resume() batchv1beta1.ResumeSpec {
	if mode := j.Spec.RunMode; mode != nil && mode.Pause != nil && j.Status.Pauses > 0 {
		for _, spec := range mode.Pause.ResumeSpecs {
			if spec.Type == WorkerType {
				return spec
			}
		}
	}
	return batchv1beta1.ResumeSpec{}
}
