package test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/kit/integration"
)

// valid is a job that the API server accepts. Each case is a merge patch for it, as a user would write it.
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
	noLeader   = "a replica of type chief or worker is required to lead the job"
)

var _ = Describe("A new job", func() {
	DescribeTable("is refused at apply time with a message that names the field", cluster.ExpectRefused,
		integration.BadInput(integration.MainContainer), integration.BadReplicaSpecs(), integration.BadTensorBoardSpecs(),
		Entry("restartScope Rendezvous, which needs torchrun", `spec: {runPolicy: {restartScope: Rendezvous}}`,
			"spec.runPolicy", "runPolicy.restartScope must be Replica or Job"),
		Entry("a type that TensorFlow does not support", integration.ReplicaSpecs("type: worker", "type: master"),
			"spec.replicaSpecs[1].type", knownTypes),
		Entry("a type in the spelling of TFJob", integration.ReplicaSpecs("type: Worker"),
			"spec.replicaSpecs[0].type", knownTypes),
		Entry("an empty type", integration.ReplicaSpecs(`type: ""`),
			"spec.replicaSpecs[0].type", knownTypes),
		Entry("no type", `spec: {replicaSpecs: [{template: {spec: {containers: [{name: main, image: training}]}}}]}`,
			"spec.replicaSpecs[0].type", "Required value"),
		Entry("two chiefs", integration.ReplicaSpecs("type: chief, replicas: 2", "type: worker"),
			"spec.replicaSpecs", "at most one chief is allowed, since it leads the job"),
		Entry("neither a chief nor a worker", integration.ReplicaSpecs("type: ps", "type: evaluator"),
			"spec.replicaSpecs", noLeader),
		Entry("the types chief and worker without replicas", integration.ReplicaSpecs("type: chief, replicas: 0",
			"type: worker, replicas: 0", "type: ps"),
			"spec.replicaSpecs", noLeader),
		Entry("a job name that makes the name of its evaluator too long",
			"metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}\n"+integration.ReplicaSpecs("type: worker",
				"type: evaluator"),
			"metadata.name", "metadata.name is too long"),
		Entry("a restart policy of the container tensorflow, listed after another container",
			integration.Containers("{name: first, image: a}", "{name: tensorflow, image: a, restartPolicy: Always}"),
			"spec.replicaSpecs[0].template.spec.containers", integration.MainRestarts),
		Entry("elastic, which only other job kinds have", `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}}`,
			"spec.elastic", `unknown field "spec.elastic"`),
		Entry("torchrunConfig, which only PyTorchTrainingJobs have", `spec: {torchrunConfig: {enabled: true}}`,
			"spec.torchrunConfig", `unknown field "spec.torchrunConfig"`),
		Entry("scalingWeight, which only PyTorchTrainingJobs have",
			integration.ReplicaSpecs("type: worker, scalingWeight: 1"),
			"spec.replicaSpecs[0].scalingWeight", "unknown field"),
		Entry("replica specs in the form of TFJob", `spec: {tfReplicaSpecs: {Worker: {replicas: 1}}}`,
			"spec.tfReplicaSpecs", `unknown field "spec.tfReplicaSpecs"`),
	)

	DescribeTable("is accepted:", cluster.ExpectAccepted,
		integration.GoodInput(integration.MainContainer), integration.GoodReplicaSpecs(), integration.GoodTensorBoardSpecs(),
		Entry("a restart policy of the first container, if the main container is another one",
			integration.Containers("{name: first, image: a, restartPolicy: Always}", "{name: tensorflow, image: a}")),
		Entry("every type",
			integration.ReplicaSpecs("type: ps, replicas: 2", "type: evaluator, replicas: 2", "type: worker, replicas: 3",
				"type: chief")),
		Entry("only a chief", integration.ReplicaSpecs("type: chief")),
		Entry("workers, and the type chief without replicas",
			integration.ReplicaSpecs("type: chief, replicas: 0", "type: worker")),
		Entry("a chief, and the type worker without replicas",
			integration.ReplicaSpecs("type: chief", "type: worker, replicas: 0")),
		Entry("the longest job name that is possible with an evaluator",
			"metadata: {name: a23456789-123456789-123456789-123456789-123456789-1}\n"+integration.ReplicaSpecs("type: worker",
				"type: evaluator")),
		Entry("the port tfjob-port", integration.MainContainer("ports: [{name: tfjob-port, containerPort: 5000}]")),
	)

	It("gets defaults for unset fields", func(ctx context.Context) {
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

	DescribeTable("is refused if the change cannot take effect", cluster.ExpectChangeRefused,
		integration.RefusedChanges(), integration.RefusedReplicaSpecChanges(),
		Entry("adding tensorboardSpec to a job that is not paused", `{}`,
			`spec: {tensorboardSpec: {image: tb, trainingLogFilesets: ["t9k://pvc/logs"]}}`,
			"spec", "tensorboardSpec can be changed only while the job is paused"),
		Entry("a second chief, even while paused", integration.ReplicaSpecs("type: chief", "type: worker")+pausing,
			integration.ReplicaSpecs("type: chief, replicas: 2", "type: worker"), "spec.replicaSpecs",
			"at most one chief is allowed"),
		Entry("removing the leader, even while paused", integration.ReplicaSpecs("type: worker", "type: ps")+pausing,
			integration.ReplicaSpecs("type: worker, replicas: 0", "type: ps"), "spec.replicaSpecs", noLeader),
	)

	DescribeTable("is allowed if the change takes effect", cluster.ExpectChangeAllowed,
		integration.AllowedChanges(), integration.AllowedReplicaSpecChanges(),
		Entry("tensorboardSpec while paused", integration.Paused,
			`spec: {tensorboardSpec: {image: tb, trainingLogFilesets: ["t9k://pvc/logs"]}}`),
		Entry("another leader while paused", integration.ReplicaSpecs("type: worker", "type: chief")+pausing,
			integration.ReplicaSpecs("type: worker", "type: chief, replicas: 0")),
	)
})

var _ = integration.DescribeCRD()
