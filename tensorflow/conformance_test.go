package tensorflow

import (
	"testing"

	"tensorstack.dev/jobs/kit/conformance"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, Controller(), func(s conformance.Shape) *v1beta1.TensorFlowTrainingJob {
		return &v1beta1.TensorFlowTrainingJob{Spec: v1beta1.TensorFlowTrainingJobSpec{
			RunPolicy:       s.RunPolicy,
			RunMode:         s.RunMode,
			TensorBoardSpec: s.TensorBoard,
			Scheduler:       s.Scheduler,
			Progress:        s.Progress,
			ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: v1beta1.ReplicaTypeWorker, Replicas: &s.Replicas, RestartPolicy: s.RestartPolicy, Template: s.Template,
			}},
		}}
	})
}
