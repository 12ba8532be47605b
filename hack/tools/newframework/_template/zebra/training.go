package zebra

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/zebra/api/v1beta1"
)

var _ framework.TrainingFramework[*v1beta1.ZebraTrainingJob] = zebra{}

// MaxProcesses implements framework.TrainingFramework.
func (zebra) MaxProcesses() int32 { return 1 }

// CanScale implements framework.TrainingFramework.
func (zebra) CanScale() bool { return false }

// NewTraining implements framework.TrainingFramework.
func (zebra) NewTraining(t framework.Training) *v1beta1.ZebraTrainingJob {
	main := &t.Template.Spec.Containers[0]
	main.Command, main.Args = []string{framework.Python}, t.Program
	return &v1beta1.ZebraTrainingJob{Spec: v1beta1.ZebraTrainingJobSpec{
		RunMode: t.RunMode, RunPolicy: t.RunPolicy, Scheduler: t.Scheduler, Progress: t.Progress,
		ReplicaSpecs: []v1beta1.ReplicaSpec{{
			Type: "worker", Replicas: &t.Nodes, Template: t.Template,
			RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
		}},
	}}
}
