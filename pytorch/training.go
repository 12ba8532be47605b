package pytorch

import (
	"cmp"
	"fmt"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// elasticRestarts is the limit of restarts in place in an elastic job, as in examples/pytorch/elastic.yaml.
const elasticRestarts = 20

// maxProcesses is the maximum number of processes of a replica. No node has so many GPUs.
const maxProcesses = 1024

var _ framework.TrainingFramework[*v1beta1.PyTorchTrainingJob] = pytorch{}

// MaxProcesses implements framework.TrainingFramework.
func (pytorch) MaxProcesses() int32 { return maxProcesses }

// CanScale implements framework.TrainingFramework.
func (pytorch) CanScale() bool { return true }

// NewTraining implements framework.TrainingFramework. If the job can have several processes or is elastic, it runs
// torchrun. Otherwise, it runs Python. With several replicas, one that is lost is replaced alone.
func (pytorch) NewTraining(t framework.Training) *v1beta1.PyTorchTrainingJob {
	job := &v1beta1.PyTorchTrainingJob{Spec: v1beta1.PyTorchTrainingJobSpec{
		RunMode: t.RunMode, RunPolicy: t.RunPolicy, Scheduler: t.Scheduler, Progress: t.Progress, Elastic: t.Elastic,
		TensorBoardSpec: t.TensorBoard,
	}}
	main := &t.Template.Spec.Containers[0]
	main.Args = t.Program
	if t.Nodes > 1 || t.Processes > 1 || t.Elastic != nil {
		job.Spec.TorchrunConfig = &v1beta1.TorchrunConfig{Enabled: true, ProcPerNode: fmt.Sprint(t.Processes)}
	} else {
		main.Command = []string{framework.Python}
	}
	replicas := v1beta1.ReplicaSpec{
		Type: "worker", RestartPolicy: batchv1beta1.RestartPolicyOnFailure, Template: t.Template,
	}
	switch {
	case t.Elastic != nil:
		job.Spec.TorchrunConfig.MaxRestarts = new(int32(elasticRestarts))
	case t.Nodes > 1:
		job.Spec.RunPolicy.RestartScope = cmp.Or(t.RunPolicy.RestartScope, batchv1beta1.RestartScopeRendezvous)
		fallthrough
	default:
		replicas.Replicas = &t.Nodes
	}
	job.Spec.ReplicaSpecs = []v1beta1.ReplicaSpec{replicas}
	return job
}
