package tensorflow

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

var _ framework.TrainingFramework[*v1beta1.TensorFlowTrainingJob] = tensorflow{}

// MaxProcesses implements framework.TrainingFramework. One process of TensorFlow uses all GPUs of a node.
func (tensorflow) MaxProcesses() int32 { return 1 }

// CanScale implements framework.TrainingFramework.
func (tensorflow) CanScale() bool { return false }

// NewTraining implements framework.TrainingFramework.
func (tensorflow) NewTraining(t framework.Training) *v1beta1.TensorFlowTrainingJob {
	main := &t.Template.Spec.Containers[0]
	main.Command, main.Args = []string{framework.Python}, t.Program
	return &v1beta1.TensorFlowTrainingJob{Spec: v1beta1.TensorFlowTrainingJobSpec{
		RunMode: t.RunMode, RunPolicy: t.RunPolicy, Scheduler: t.Scheduler, Progress: t.Progress,
		TensorBoardSpec: t.TensorBoard,
		ReplicaSpecs: []v1beta1.ReplicaSpec{{
			Type: v1beta1.ReplicaTypeWorker, Replicas: &t.Nodes, Template: t.Template,
			RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
		}},
	}}
}
