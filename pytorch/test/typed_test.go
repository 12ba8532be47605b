package test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

var _ = Describe("A running job", func() {
	cluster.TypedClientSpecs(func(template string) string {
		return "spec: {replicaSpecs: [{type: worker, replicas: 2, template: " + template + "}], " +
			"elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}, " +
			"torchrunConfig: {enabled: true, maxRestarts: 3}}"
	}, map[string]func(*v1beta1.PyTorchTrainingJob){
		"the run policy": func(job *v1beta1.PyTorchTrainingJob) { job.Spec.RunPolicy.BackoffLimit = new(int32(7)) },
		"the size":       func(job *v1beta1.PyTorchTrainingJob) { job.Spec.Elastic.ExpectedReplicas = new(int32(3)) },
		"whether the job is paused": func(job *v1beta1.PyTorchTrainingJob) {
			job.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
		},
	})
})

var _ = DescribeTable("A typed client must patch a running job", func(ctx context.Context, fields string) {
	job := cluster.Create(ctx, cluster.NewNamespace(ctx), integration.MainContainer(fields))
	before := job.DeepCopy()
	job.Spec.RunPolicy.BackoffLimit = new(int32(7))
	Expect(cluster.Client.Update(ctx, job.DeepCopy())).To(MatchError(ContainSubstring("only while the job is paused")))
	Expect(cluster.Client.Patch(ctx, job, client.MergeFrom(before))).To(Succeed())
},
	Entry("whose manifest has a quantity as a number", "resources: {limits: {cpu: 1}}"),
	Entry("whose manifest has a quantity in another form", "resources: {limits: {memory: 1024Mi}}"),
	Entry("whose manifest sets a field to false", "stdin: false"),
	Entry("whose manifest has an empty list", "args: []"),
)
