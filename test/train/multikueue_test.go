package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("kubectl train, for a job that MultiKueue runs in another cluster,", func() {
	const elsewhere = "managedBy: kueue.x-k8s.io/multikueue, "

	DescribeTable("refuses what needs pods in this cluster",
		func(ctx context.Context, spec string, args ...string) {
			n := newNamespace(ctx)
			n.create(ctx, withSpec("PyTorchTrainingJob", "digits", elsewhere+spec+workers))
			call := n.start(ctx, args...)
			Eventually(ctx, call.ended, "10s").Should(Receive(MatchError(
				"MultiKueue runs ptjob/digits in another cluster, which has its pods: kubectl train why " +
					n.typed("ptjob/digits") + " names the cluster, and --context selects it")))
		},
		Entry("to read the output", "", "logs", "digits"),
		Entry("to read all output", "", "logs", "digits", "--all"),
		Entry("to follow the output", "", "logs", "digits", "-f"),
		Entry("to debug", "runMode: {debug: {enabled: true}}, ", "debug", "digits"),
		Entry("to open the TensorBoard", `tensorboardSpec: {trainingLogFilesets: ["t9k://pvc/logs/runs"]}, `,
			"board", "digits"),
	)

	It("does not wait until the job is scaled", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, withSpec("PyTorchTrainingJob", "digits", elsewhere+`torchrunConfig: {enabled: true, maxRestarts: 3},
			elastic: {enabled: true, minReplicas: 1, maxReplicas: 3, expectedReplicas: 2}, `+workers))
		call := n.start(ctx, "scale", "digits", "3")
		Eventually(ctx, call.ended, "10s").Should(Receive(BeNil()))
		Expect(call.messages()).To(Equal("MultiKueue runs ptjob/digits in another cluster, and its number of replicas " +
			"changes there when you pause and resume it: kubectl train pause " + n.typed("ptjob/digits") +
			", and then kubectl train resume " + n.typed("ptjob/digits") + "\n"))
	})
})
