package deepspeed

import (
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// elasticOf returns the elastic configuration of the job, or nil if the job is not elastic.
func elasticOf(job *v1beta1.DeepSpeedJob) *batchv1beta1.ElasticConfig {
	if elastic := job.Spec.Elastic; elastic != nil && elastic.Enabled {
		return elastic
	}
	return nil
}

func (deepspeed) JobSpec(job *v1beta1.DeepSpeedJob) framework.JobSpec {
	worker := &job.Spec.Worker
	roles := []framework.Role{{
		Type:          v1beta1.WorkerType,
		Replicas:      ptr.Deref(worker.Replicas, 1),
		ScalingWeight: 1,
		RestartPolicy: worker.RestartPolicy,
		Template:      &worker.Template,
		Serves:        true, // worker 0 launches the processes on all workers, by ssh
	}}
	spec := framework.JobSpec{
		Roles:               roles,
		RunPolicy:           job.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             job.Spec.RunMode,
		Elastic:             elasticOf(job),
		Scheduler:           job.Spec.Scheduler,
		ManagedBy:           ptr.Deref(job.Spec.ManagedBy, ""),
		ReportsProgress:     job.Spec.Progress.Reports(),
		HasLauncher:         true,
		RestartsInPlace:     maxRestarts(job) > 0,
	}
	if spec.Elastic != nil {
		spec.Roles = policy.Scale("", roles, spec.Elastic.Expected())
		spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
	}
	return spec
}

// slotsOf returns the number of training processes of each worker.
func slotsOf(job *v1beta1.DeepSpeedJob) int32 {
	if job.Spec.Config == nil {
		return 1
	}
	return ptr.Deref(job.Spec.Config.SlotsPerWorker, 1)
}

// maxRestarts returns the limit of restarts in place. It is 0 if a command of the user launches the training, and with
// the autotuner, whose experiments can fail.
func maxRestarts(job *v1beta1.DeepSpeedJob) int32 {
	config := ptr.Deref(job.Spec.Config, v1beta1.Config{})
	if len(programOf(job)) == 0 || autotunes(config) {
		return 0
	}
	return ptr.Deref(config.MaxRestarts, 0)
}

// resumeSpecOf returns the resumeSpec of the workers. It is empty unless the job was paused after its first start.
func resumeSpecOf(job *v1beta1.DeepSpeedJob) batchv1beta1.ResumeSpec {
	if mode := job.Spec.RunMode; mode != nil && mode.Pause != nil && job.Status.Pauses > 0 {
		for _, spec := range mode.Pause.ResumeSpecs {
			if spec.Type == v1beta1.WorkerType {
				return spec
			}
		}
	}
	return batchv1beta1.ResumeSpec{}
}
