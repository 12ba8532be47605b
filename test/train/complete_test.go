package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The shell completion of kubectl train", func() {
	It("lists the jobs with their kinds and phases", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.create(ctx, plain("TensorFlowTrainingJob", "digits"))
		n.create(ctx, plain("DeepSpeedJob", "words"))
		Eventually(ctx, n.phase(ctx, "words")).Should(Equal("Pending"))
		complete := func(args ...string) string {
			GinkgoHelper()
			out, _, err := n.train(ctx, append([]string{"__complete"}, args...)...)
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		for _, verb := range []string{"logs", "pause", "resume", "scale", "delete", "debug", "board", "watch", "why"} {
			Expect(complete(verb, "w")).To(Equal("words\tDeepSpeedJob Pending\n:4\n"), verb)
		}
		Expect(complete("logs", "")).To(MatchRegexp(
			"^words\tDeepSpeedJob Pending\nptjob/digits\tPyTorch.*\ntfjob/digits\t.*\n:4\n$"))
		Expect(complete("logs", "tfjob/")).To(MatchRegexp("^tfjob/digits\tTensorFlowTrainingJob .*\n:4\n$"))
		Expect(complete("logs", "words", "")).To(Equal(":4\n"))
		Expect(complete("logs", "--namespace", string(n)[:len(n)-1])).To(ContainSubstring(string(n) + "\n"))
	})
})
