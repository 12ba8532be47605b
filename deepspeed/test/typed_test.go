package test

import (
	. "github.com/onsi/ginkgo/v2"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

var _ = Describe("A running job", func() {
	cluster.TypedClientSpecs(func(template string) string {
		return "spec: {worker: {template: " + template + "}, " +
			"elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}}"
	}, map[string]func(*v1beta1.DeepSpeedJob){
		"the run policy": func(job *v1beta1.DeepSpeedJob) { job.Spec.RunPolicy.BackoffLimit = new(int32(7)) },
		"the size":       func(job *v1beta1.DeepSpeedJob) { job.Spec.Elastic.ExpectedReplicas = new(int32(3)) },
		"whether the job is paused": func(job *v1beta1.DeepSpeedJob) {
			job.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
		},
	})
})
