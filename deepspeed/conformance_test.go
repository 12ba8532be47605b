package deepspeed

import (
	"testing"

	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/kit/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, Controller(), func(s conformance.Shape) *v1beta1.DeepSpeedJob {
		config := &v1beta1.Config{Run: &v1beta1.RunType{Python: []string{"train.py"}}}
		if s.InPlace {
			config.MaxRestarts = new(int32(100))
		}
		return &v1beta1.DeepSpeedJob{Spec: v1beta1.DeepSpeedJobSpec{
			RunPolicy: s.RunPolicy,
			RunMode:   s.RunMode,
			Scheduler: s.Scheduler,
			Elastic:   s.Elastic,
			Progress:  s.Progress,
			Config:    config,
			Worker:    v1beta1.Worker{Replicas: &s.Replicas, RestartPolicy: s.RestartPolicy, Template: s.Template},
		}}
	})
}
