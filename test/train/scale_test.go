package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

var _ = Describe("kubectl train scale", func() {
	It("waits until all replicas run", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, elastic("digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		scale := n.start(ctx, "scale", "digits", "3")
		Eventually(ctx, scale.errOut).Should(gbytes.Say("Waiting: PartiallyRunning: 2 of 3 replicas run"))
		n.run(ctx, "digits-worker-2")
		Eventually(ctx, scale.ended).Should(Receive(BeNil()))
		Expect(scale.out.Contents()).To(BeEquivalentTo("pytorchtrainingjob.batch.tensorstack.dev/digits scaled\n"))

		out, _, err := n.train(ctx, "scale", "digits", "1", "-o", "jsonpath={.spec.elastic.expectedReplicas} {.status.ready}")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("1 1/1"))
	})

	It("does not wait for a paused job", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.paused(ctx, elastic("digits"))
		out, errOut, err := n.train(ctx, "scale", "digits", "3")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(HaveSuffix("/digits scaled\n"))
		Expect(errOut).To(Equal(
			"ptjob/digits is paused. It gets the replicas when you resume it: kubectl train resume " +
				n.typed("ptjob/digits") + "\n"))
	})

	DescribeTable("refuses",
		func(ctx context.Context, manifest, replicas, wanted string) {
			n := newNamespace(ctx)
			n.create(ctx, manifest)
			_, _, err := n.train(ctx, "scale", "digits", replicas)
			Expect(err).To(MatchError(ContainSubstring(wanted)))
		},
		Entry("a job that is not elastic", plain("PyTorchTrainingJob", "digits"), "3", "ptjob/digits is not elastic, so it "+
			"cannot be scaled while it runs: pause it, change its replicas with kubectl edit, and resume it"),
		Entry("a number out of the limits", elastic("digits"), "4",
			"ptjob/digits can have 1 to 3 replicas, as its spec.elastic specifies, and not 4"),
		Entry("a text", elastic("digits"), "many", `"many" is no number of replicas`),
	)

	It("fails if somebody pauses the job meanwhile", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, elastic("digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		scale := n.start(ctx, "scale", "digits", "3")
		Eventually(ctx, scale.errOut).Should(gbytes.Say("Waiting"))
		_, _, err := n.train(ctx, "pause", "digits", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, scale.ended).Should(Receive(MatchError(ContainSubstring("ptjob/digits was paused meanwhile"))))
	})
})
