package test

import (
	. "github.com/onsi/ginkgo/v2"

	"tensorstack.dev/jobs/kit/integration"
)

// valid is a job that the API server accepts. Each case is a merge patch for it, as a user would write it.
const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: ZebraTrainingJob
metadata:
  name: job
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: zebra
          image: training
          command: [python, train.py]
`

var _ = Describe("Bad input", func() {
	DescribeTable("is refused at apply time with a message that names the field", cluster.ExpectRefused,
		integration.BadInput(integration.MainContainer), integration.BadReplicaSpecs(),
		Entry("a type that is not a DNS label", integration.ReplicaSpecs("type: Worker_1"),
			"spec.replicaSpecs[0].type", "type must be a DNS-1123 label"),
		Entry("an empty type", integration.ReplicaSpecs(`type: ""`),
			"spec.replicaSpecs[0].type", "should be at least 1 chars long"),
	)
})

var _ = Describe("Good input", func() {
	DescribeTable("is accepted", cluster.ExpectAccepted,
		integration.GoodInput(integration.MainContainer), integration.GoodReplicaSpecs(),
	)
})

var _ = Describe("Changing a job", func() {
	DescribeTable("is refused if the change cannot take effect", cluster.ExpectChangeRefused,
		integration.RefusedChanges(), integration.RefusedReplicaSpecChanges(),
	)

	DescribeTable("is allowed if the change takes effect", cluster.ExpectChangeAllowed,
		integration.AllowedChanges(), integration.AllowedReplicaSpecChanges(),
	)
})

var _ = integration.DescribeCRD()
