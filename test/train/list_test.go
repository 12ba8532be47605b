package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("kubectl train list", func() {
	It("lists the jobs of all kinds in one table", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.create(ctx, plain("TensorFlowTrainingJob", "digits"))
		n.create(ctx, plain("DeepSpeedJob", "words"))
		n.run(ctx, "digits-worker-0", "digits-worker-1", "words-worker-0", "words-worker-1")
		list := func() (string, error) {
			out, _, err := n.train(ctx, "list")
			return out, err
		}
		Eventually(ctx, list).Should(And(
			MatchRegexp(`(?m)^NAME +PHASE +READY +PROGRESS +RESTARTS +DISRUPTIONS +AGE`),
			MatchRegexp(`(?m)^dsjob/words +Running +2/2 +- +0 +0 `), MatchRegexp(`(?m)^ptjob/digits +`),
			MatchRegexp(`(?m)^tfjob/digits +`),
		))
	})

	It("prints the names in a form that kubectl reads", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		out, _, err := n.train(ctx, "list", "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("pytorchtrainingjob.batch.tensorstack.dev/digits\n"))
	})

	It("reports on stderr that there are no jobs", func(ctx context.Context) {
		n := newNamespace(ctx)
		out, errOut, err := n.train(ctx, "list")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(BeEmpty())
		Expect(errOut).To(Equal("No jobs found in namespace " + string(n) + ".\n"))
	})

	It("prints an empty list for a program if there are no jobs", func(ctx context.Context) {
		out, errOut, err := newNamespace(ctx).train(ctx, "list", "-o", "json")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(MatchJSON(`{"apiVersion": "v1", "kind": "List", "items": [], "metadata": {}}`))
		Expect(errOut).To(BeEmpty())
	})
})
