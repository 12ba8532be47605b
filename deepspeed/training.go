package deepspeed

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

var _ framework.TrainingFramework[*v1beta1.DeepSpeedJob] = deepspeed{}

// MaxProcesses implements framework.TrainingFramework. It is the limit of config.slotsPerWorker.
func (deepspeed) MaxProcesses() int32 { return 1024 }

// CanScale implements framework.TrainingFramework.
func (deepspeed) CanScale() bool { return true }

// NewTraining implements framework.TrainingFramework. The launcher of DeepSpeed starts the processes.
func (deepspeed) NewTraining(t framework.Training) *v1beta1.DeepSpeedJob {
	program := &v1beta1.RunType{Python: t.Program}
	if t.IsModule() {
		program = &v1beta1.RunType{Module: t.Program[1:]}
	}
	job := &v1beta1.DeepSpeedJob{Spec: v1beta1.DeepSpeedJobSpec{
		RunMode: t.RunMode, RunPolicy: t.RunPolicy, Scheduler: t.Scheduler, Progress: t.Progress, Elastic: t.Elastic,
		Config: &v1beta1.Config{SlotsPerWorker: &t.Processes, Run: program},
		Worker: v1beta1.Worker{Template: t.Template, RestartPolicy: batchv1beta1.RestartPolicyOnFailure},
	}}
	if t.Elastic == nil {
		job.Spec.Worker.Replicas = &t.Nodes
	}
	return job
}
