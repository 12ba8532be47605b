package test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/kit/integration"
)

// valid is a job that the API server accepts. Each case is a merge patch onto it, as a user would write it.
const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata:
  name: job
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: tensorflow
          image: training
          command: [python, train.py]
`

const (
	knownTypes = `supported values: "chief", "worker", "ps", "evaluator"`
	nobodyLead = "a replica of type chief or worker is required: its success is the job's"
)

var _ = Describe("Bad input", func() {
	DescribeTable("is refused at apply time with a message that names the field", cluster.ExpectRefused,
		integration.BadInput(integration.MainContainer), integration.BadReplicaSpecs(), integration.BadTensorBoardSpecs(),
		Entry("a type that TensorFlow does not know", integration.ReplicaSpecs("type: worker", "type: master"),
			"spec.replicaSpecs[1].type", knownTypes),
		Entry("a type in the spelling of TFJob", integration.ReplicaSpecs("type: Worker"),
			"spec.replicaSpecs[0].type", knownTypes),
		Entry("an empty type", integration.ReplicaSpecs(`type: ""`),
			"spec.replicaSpecs[0].type", knownTypes),
		Entry("no type", `spec: {replicaSpecs: [{template: {spec: {containers: [{name: main, image: training}]}}}]}`,
			"spec.replicaSpecs[0].type", "Required value"),
		Entry("two chiefs", integration.ReplicaSpecs("type: chief, replicas: 2", "type: worker"),
			"spec.replicaSpecs", "at most one chief is allowed: it leads"),
		Entry("neither a chief nor a worker", integration.ReplicaSpecs("type: ps", "type: evaluator"),
			"spec.replicaSpecs", nobodyLead),
		Entry("chief and worker, but no replica of either", integration.ReplicaSpecs("type: chief, replicas: 0",
			"type: worker, replicas: 0", "type: ps"),
			"spec.replicaSpecs", nobodyLead),
		Entry("a job name too long for its evaluator's name",
			"metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}\n"+integration.ReplicaSpecs("type: worker",
				"type: evaluator"),
			"metadata.name", "metadata.name is too long"),
		Entry("a restart policy of the container named tensorflow, behind another",
			integration.Containers("{name: first, image: a}", "{name: tensorflow, image: a, restartPolicy: Always}"),
			"spec.replicaSpecs[0].template.spec.containers", integration.MainRestarts),
		Entry("elastic, which is PyTorch's", `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}}`,
			"spec.elastic", `unknown field "spec.elastic"`),
		Entry("torchrunConfig, which is PyTorch's", `spec: {torchrunConfig: {enabled: true}}`,
			"spec.torchrunConfig", `unknown field "spec.torchrunConfig"`),
		Entry("scalingWeight, which is PyTorch's", integration.ReplicaSpecs("type: worker, scalingWeight: 1"),
			"spec.replicaSpecs[0].scalingWeight", "unknown field"),
		Entry("replica specs in the form of TFJob", `spec: {tfReplicaSpecs: {Worker: {replicas: 1}}}`,
			"spec.tfReplicaSpecs", `unknown field "spec.tfReplicaSpecs"`),
	)

	DescribeTable("is told from good input", cluster.ExpectAccepted,
		integration.GoodInput(integration.MainContainer), integration.GoodReplicaSpecs(), integration.GoodTensorBoardSpecs(),
		Entry("a first container that restarts in its pod, beside the main container",
			integration.Containers("{name: first, image: a, restartPolicy: Always}", "{name: tensorflow, image: a}")),
		Entry("every type",
			integration.ReplicaSpecs("type: ps, replicas: 2", "type: evaluator, replicas: 2", "type: worker, replicas: 3",
				"type: chief")),
		Entry("a chief alone", integration.ReplicaSpecs("type: chief")),
		Entry("a chief without a replica beside workers",
			integration.ReplicaSpecs("type: chief, replicas: 0", "type: worker")),
		Entry("workers without a replica beside a chief",
			integration.ReplicaSpecs("type: chief", "type: worker, replicas: 0")),
		Entry("the longest job name that its evaluator's name allows",
			"metadata: {name: a23456789-123456789-123456789-123456789-123456789-1}\n"+integration.ReplicaSpecs("type: worker",
				"type: evaluator")),
		Entry("a port of its own", integration.MainContainer("ports: [{name: tfjob-port, containerPort: 5000}]")),
	)

	It("does not concern what is not given: defaults are filled in", func(ctx context.Context) {
		job, err := cluster.Apply(ctx,
			integration.ReplicaSpecs("type: worker")+"  scheduler: {t9kScheduler: {queue: default}}\n")
		Expect(err).NotTo(HaveOccurred())
		spec := job["spec"].(map[string]any)
		Expect(spec["runPolicy"]).To(Equal(map[string]any{"backoffLimit": int64(3), "cleanUpPolicy": "Unfinished"}))
		replicas := spec["replicaSpecs"].([]any)[0].(map[string]any)
		Expect(replicas).To(HaveKeyWithValue("replicas", int64(1)))
		Expect(replicas).To(HaveKeyWithValue("restartPolicy", "Never"))
		Expect(spec["scheduler"]).To(HaveKeyWithValue("t9kScheduler", HaveKeyWithValue("priority", int64(10))))
	})
})

var _ = Describe("Changing a job", func() {
	const pausing = "  runMode: {pause: {enabled: true}}\n"

	DescribeTable("is refused where it could not take effect", cluster.ExpectChangeRefused,
		integration.RefusedChanges(), integration.RefusedReplicaSpecChanges(),
		Entry("adding tensorboardSpec to a job that is not paused", `{}`,
			`spec: {tensorboardSpec: {image: tb, trainingLogFilesets: ["t9k://pvc/logs"]}}`,
			"spec", "tensorboardSpec can be changed only while the job is paused"),
		Entry("a second chief, even while paused", integration.ReplicaSpecs("type: chief", "type: worker")+pausing,
			integration.ReplicaSpecs("type: chief, replicas: 2", "type: worker"), "spec.replicaSpecs",
			"at most one chief is allowed"),
		Entry("taking away the leader, even while paused", integration.ReplicaSpecs("type: worker", "type: ps")+pausing,
			integration.ReplicaSpecs("type: worker, replicas: 0", "type: ps"), "spec.replicaSpecs", nobodyLead),
	)

	DescribeTable("is allowed where it takes effect", cluster.ExpectChangeAllowed,
		integration.AllowedChanges(), integration.AllowedReplicaSpecChanges(),
		Entry("tensorboardSpec while paused", integration.Paused,
			`spec: {tensorboardSpec: {image: tb, trainingLogFilesets: ["t9k://pvc/logs"]}}`),
		Entry("another leader while paused", integration.ReplicaSpecs("type: worker", "type: chief")+pausing,
			integration.ReplicaSpecs("type: worker", "type: chief, replicas: 0")),
	)
})

var _ = integration.DescribeCRD()
