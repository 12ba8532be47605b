package zebra

import (
	"testing"

	"tensorstack.dev/jobs/kit/conformance"
	"tensorstack.dev/jobs/zebra/api/v1beta1"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, Controller(), func(s conformance.Shape) *v1beta1.ZebraTrainingJob {
		return &v1beta1.ZebraTrainingJob{Spec: v1beta1.ZebraTrainingJobSpec{
			RunPolicy: s.RunPolicy,
			RunMode:   s.RunMode,
			Scheduler: s.Scheduler,
			Progress:  s.Progress,
			ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: "worker", Replicas: &s.Replicas, RestartPolicy: s.RestartPolicy, Template: s.Template,
			}},
		}}
	})
}
