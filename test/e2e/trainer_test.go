package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The Trainer of Hugging Face", Label("trainer"), func() {
	DescribeTable("continues from its checkpoint after a worker was killed",
		func(ctx context.Context, example, job, resource, container, end string) {
			waitLonger(2) // the imports of the Trainer take long
			n := newNamespace(ctx)
			n.volume(ctx, job)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "apply", "-k", "examples/deepspeed/code")
			n.kubectl(ctx, "apply", "-f", example)
			log := n.output(ctx, "logs", job+"-worker-0", "-c", container)

			Eventually(ctx, log).Should(MatchRegexp(`'eval_accuracy': .* 'epoch': '2'`))
			n.kubectl(ctx, "exec", job+"-worker-1", "-c", container, "--", "sh", "-c", "kill -9 -1")
			n.kubectl(ctx, "wait", "--for=condition=Completed", resource+"/"+job, timeout)
			Eventually(ctx, log).Should(And(
				MatchRegexp("continuing from /checkpoints/checkpoint-[0-9]+"), ContainSubstring("rank 0 of 2 on "+job+"-worker-0"),
				// An untrained model has an accuracy of 0.1 and a loss of 2.3.
				MatchRegexp(`'eval_loss': '[01]\.[0-9]*', 'eval_accuracy': '0\.[6-9].* 'epoch': '8'`),
				ContainSubstring(end),
			))
			Eventually(ctx, n.output(ctx, "get", resource, job, "-o", "jsonpath={.status.backoffCount}")).Should(Equal("1"))
			// The Trainer reports at most every 5 s, so the restarted training might report no step before its end.
			Eventually(ctx, n.progress(ctx, resource, job)).Should(MatchRegexp(`^100%( \(\d+/\d+\))?$`))
			Eventually(ctx, n.output(ctx, "get", resource, job, "-o", "jsonpath={.status.progress.metrics[*].name}")).
				Should(ContainSubstring("eval_accuracy"))
		},
		Entry("with torchrun", Label("pytorch"), "examples/pytorch/trainer.yaml", "digits-trainer", "ptjob", "pytorch", ""),
		Entry("with DeepSpeed ZeRO stage 3", Label("deepspeed"),
			"examples/deepspeed/trainer.yaml", "digits-zero3", "dsjob", "worker", "trained with ZeRO stage 3"),
	)
})
