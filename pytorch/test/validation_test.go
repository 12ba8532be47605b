package test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"tensorstack.dev/jobs/kit/integration"
)

// valid is a job that the API server accepts. Each case is a merge patch for it, as a user would write it.
const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: job
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: pytorch
          image: training
          command: [python, train.py]
`

const elasticTorchrun = `
spec:
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
  torchrunConfig: {enabled: true, maxRestarts: 3}
`

var _ = Describe("A new job", func() {
	DescribeTable("is refused at apply time with a message that names the field", cluster.ExpectRefused,
		integration.BadInput(integration.MainContainer), integration.BadReplicaSpecs(), integration.BadTensorBoardSpecs(),
		integration.BadElastic(),
		Entry("a type that is not a DNS label", integration.ReplicaSpecs("type: Worker_1"), "spec.replicaSpecs[0].type",
			"type must be a DNS-1123 label: lower case letters, digits and '-', beginning and ending with a letter or digit"),
		Entry("a restart policy of the container pytorch, listed after the container python",
			integration.Containers("{name: python, image: a}", "{name: pytorch, image: a, restartPolicy: Always}"),
			"spec.replicaSpecs[0].template.spec.containers", integration.MainRestarts),
		Entry("a restart policy of the container python, listed after another container",
			integration.Containers("{name: first, image: a}", "{name: python, image: a, restartPolicy: Always}"),
			"spec.replicaSpecs[0].template.spec.containers", integration.MainRestarts),
		Entry("an empty type", integration.ReplicaSpecs(`type: ""`),
			"spec.replicaSpecs[0].type", "should be at least 1 chars long"),
		Entry("a negative scalingWeight", integration.ReplicaSpecs("type: worker, scalingWeight: -1"),
			"spec.replicaSpecs[0].scalingWeight", "should be greater than or equal to 0"),
		Entry("restartScope Rendezvous without torchrun", `spec: {runPolicy: {restartScope: Rendezvous}}`,
			"spec.runPolicy", "runPolicy.restartScope Rendezvous needs torchrun"),
		Entry("restartScope Rendezvous with another rendezvous backend",
			`spec: {runPolicy: {restartScope: Rendezvous}, torchrunConfig: {enabled: true, rdzvBackend: etcd-v2, `+
				`extraOptions: ["--rdzv_endpoint=etcd:2379"]}}`,
			"spec.runPolicy", "runPolicy.restartScope Rendezvous needs torchrun"),
		Entry("an unknown restartScope", `spec: {runPolicy: {restartScope: Pod}}`,
			"spec.runPolicy.restartScope", `supported values: "Replica", "Job", "Rendezvous"`),
		Entry("elastic training of a master without another type",
			integration.ReplicaSpecs("type: master")+
				"  elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}\n  torchrunConfig: {enabled: true, maxRestarts: 1}\n",
			"spec.replicaSpecs", "elastic training needs a type other than master"),
		Entry("negative maxRestarts", `spec: {torchrunConfig: {enabled: true, maxRestarts: -1}}`,
			"spec.torchrunConfig.maxRestarts", "should be greater than or equal to 0"),
		Entry("a procPerNode that torchrun does not support", `spec: {torchrunConfig: {enabled: true, procPerNode: all}}`,
			"spec.torchrunConfig.procPerNode", "procPerNode must be a positive integer, cpu, gpu, xpu, npu or auto"),
		Entry("another rendezvous backend without an endpoint",
			`spec: {torchrunConfig: {enabled: true, rdzvBackend: etcd-v2}}`,
			"spec.torchrunConfig.rdzvBackend", "add --rdzv_endpoint=<host>:<port> to extraOptions"),
		Entry("a job name that is too long for the last pod that elastic training can add",
			integration.TenDigits("replicas: 1")+
				"  elastic: {enabled: true, minReplicas: 1, maxReplicas: 11}\n  torchrunConfig: {enabled: true, maxRestarts: 1}\n",
			"metadata.name", "metadata.name is too long"),
		Entry("torchrunConfig.enable, as in an older reference", `spec: {torchrunConfig: {enable: true}}`,
			"spec.torchrunConfig.enable", "unknown field"),
	)

	DescribeTable("is accepted:", cluster.ExpectAccepted,
		integration.GoodInput(integration.MainContainer), integration.GoodReplicaSpecs(), integration.GoodTensorBoardSpecs(),
		Entry("a restart policy of the first container, if the main container is another one",
			integration.Containers("{name: first, image: a, restartPolicy: Always}", "{name: pytorch, image: a}")),
		Entry("a list of common types",
			integration.ReplicaSpecs("type: master", "type: worker", "type: node", "type: ps")),
		Entry("elastic training without an expected number",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}, torchrunConfig: {enabled: true, maxRestarts: 1}}`),
		Entry("a disabled elastic", `spec: {elastic: {enabled: false}}`),
		Entry("procPerNode gpu", `spec: {torchrunConfig: {enabled: true, procPerNode: gpu}}`),
		Entry("procPerNode xpu", `spec: {torchrunConfig: {enabled: true, procPerNode: xpu}}`),
		Entry("procPerNode npu", `spec: {torchrunConfig: {enabled: true, procPerNode: npu}}`),
		Entry("another rendezvous backend with an endpoint",
			`spec: {torchrunConfig: {enabled: true, rdzvBackend: etcd-v2, extraOptions: ["--rdzv_endpoint=etcd:2379"]}}`),
	)

	It("gets defaults for unset fields", func(ctx context.Context) {
		job, err := cluster.Apply(
			ctx,
			`spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [{name: pytorch, image: training}]}}}], torchrunConfig: {enabled: true}, scheduler: {t9kScheduler: {queue: default}}}`,
		)
		Expect(err).NotTo(HaveOccurred())
		spec := job["spec"].(map[string]any)
		Expect(spec["runPolicy"]).To(Equal(map[string]any{"backoffLimit": int64(3), "cleanUpPolicy": "Unfinished"}))
		replicas := spec["replicaSpecs"].([]any)[0].(map[string]any)
		Expect(replicas).To(HaveKeyWithValue("replicas", int64(1)))
		Expect(replicas).To(HaveKeyWithValue("restartPolicy", "Never"))
		Expect(spec["torchrunConfig"]).To(HaveKeyWithValue("rdzvBackend", "c10d"))
		Expect(spec["scheduler"]).To(HaveKeyWithValue("t9kScheduler", HaveKeyWithValue("priority", int64(10))))
	})
})

var _ = Describe("Changing a job", func() {
	DescribeTable("is refused if the change cannot take effect", cluster.ExpectChangeRefused,
		integration.RefusedChanges(), integration.RefusedReplicaSpecChanges(),
		Entry("torchrunConfig of a job that is not paused", `spec: {torchrunConfig: {enabled: true}}`,
			`spec: {torchrunConfig: {maxRestarts: 2}}`,
			"spec", "torchrunConfig can be changed only while the job is paused"),
		Entry("adding torchrunConfig to a job that is not paused", `{}`, `spec: {torchrunConfig: {enabled: true}}`,
			"spec", "torchrunConfig can be changed only while the job is paused"),
		Entry("adding tensorboardSpec to a job that is not paused", `{}`,
			`spec: {tensorboardSpec: {image: tb, trainingLogFilesets: ["t9k://pvc/logs"]}}`,
			"spec", "tensorboardSpec can be changed only while the job is paused"),
		Entry("minReplicas, even while paused", elasticTorchrun+"  runMode: {pause: {enabled: true}}\n",
			`spec: {elastic: {minReplicas: 2}}`, "spec", "elastic.minReplicas cannot be changed"),
		Entry("maxReplicas", elasticTorchrun, `spec: {elastic: {maxReplicas: 5}}`, "spec",
			"elastic.maxReplicas cannot be changed"),
		Entry("removing elastic", elasticTorchrun, `spec: {elastic: null}`, "spec", "elastic.enabled cannot be changed"),
		Entry("adding elastic", `{}`, `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}}`, "spec",
			"elastic.enabled cannot be changed"),
		Entry("expectedReplicas outside its limits", elasticTorchrun, `spec: {elastic: {expectedReplicas: 5}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
	)

	DescribeTable("is allowed if the change takes effect", cluster.ExpectChangeAllowed,
		integration.AllowedChanges(), integration.AllowedReplicaSpecChanges(),
		Entry("expectedReplicas", elasticTorchrun, `spec: {elastic: {expectedReplicas: 4}}`),
		Entry("torchrunConfig while paused", integration.Paused, `spec: {torchrunConfig: {enabled: true}}`),
	)
})

var _ = Describe("The scale subresource", func() {
	It("returns an error for a job without elastic", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx))
		err := cluster.Client.SubResource("scale").Get(ctx, job, &autoscalingv1.Scale{})
		Expect(
			err,
		).To(MatchError(`Internal error occurred: the spec replicas field ".spec.elastic.expectedReplicas" does not exist`))
	})

	DescribeTable("refuses to scale", func(ctx context.Context, patch string) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), patch)
		Expect(cluster.Scale(ctx, job, 3)).To(MatchError(And(ContainSubstring("spec.elastic.expectedReplicas"),
			ContainSubstring("expectedReplicas can be changed only in an elastic job, where elastic.enabled"))))
	},
		Entry("a job without elastic", `{}`),
		Entry("a job whose elastic is disabled", `spec: {elastic: {enabled: false, expectedReplicas: 2}}`),
		Entry("an elastic job without torchrun", `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 4}}`),
	)

	It("reads and sets expectedReplicas of an elastic job within its limits", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), elasticTorchrun)
		scale := &autoscalingv1.Scale{}
		Expect(cluster.Client.SubResource("scale").Get(ctx, job, scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(Equal(int32(2)))

		Expect(cluster.Scale(ctx, job, 4)).To(Succeed())
		Expect(
			cluster.Scale(ctx, job, 9),
		).To(MatchError(ContainSubstring("expectedReplicas must be from minReplicas to maxReplicas")))
	})
})

var _ = integration.DescribeCRD()
