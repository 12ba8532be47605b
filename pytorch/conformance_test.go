package pytorch

import (
	"testing"

	"tensorstack.dev/jobs/common/frameworktest"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	frameworktest.Run(t, Controller(), func(s frameworktest.Shape) *v1beta1.PyTorchTrainingJob {
		return &v1beta1.PyTorchTrainingJob{Spec: v1beta1.PyTorchTrainingJobSpec{
			RunPolicy: s.RunPolicy,
			ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: "worker", Replicas: &s.Replicas, RestartPolicy: s.RestartPolicy, Template: s.Template,
			}},
		}}
	})
}
