package pytorch

import (
	"testing"

	"tensorstack.dev/jobs/kit/conformance"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, Controller(), func(s conformance.Shape) *v1beta1.PyTorchTrainingJob {
		job := &v1beta1.PyTorchTrainingJob{Spec: v1beta1.PyTorchTrainingJobSpec{
			RunPolicy:       s.RunPolicy,
			RunMode:         s.RunMode,
			TensorBoardSpec: s.TensorBoard,
			Scheduler:       s.Scheduler,
			Elastic:         s.Elastic,
			Progress:        s.Progress,
			ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: "worker", Replicas: &s.Replicas, RestartPolicy: s.RestartPolicy, Template: s.Template,
			}},
		}}
		if s.Elastic != nil || s.InPlace {
			job.Spec.TorchrunConfig = &v1beta1.TorchrunConfig{Enabled: true, MaxRestarts: new(int32(100))}
		}
		return job
	})
}
