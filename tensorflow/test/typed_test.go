package test

import (
	. "github.com/onsi/ginkgo/v2"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

var _ = Describe("A running job", func() {
	cluster.TypedClientSpecs(func(template string) string {
		return "spec: {replicaSpecs: [{type: worker, replicas: 2, template: " + template + "}]}"
	}, map[string]func(*v1beta1.TensorFlowTrainingJob){
		"the run policy": func(job *v1beta1.TensorFlowTrainingJob) { job.Spec.RunPolicy.BackoffLimit = new(int32(7)) },
		"whether the job is paused": func(job *v1beta1.TensorFlowTrainingJob) {
			job.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
		},
	})
})
