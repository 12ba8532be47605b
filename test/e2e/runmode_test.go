package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The page about run modes", Label("pytorch"), func() {
	DescribeTable("shows how to",
		func(ctx context.Context, section string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.follow(ctx, "docs/train/run-modes.md", section)
		},
		Entry("debug a job", "Debug"),
		Entry("pause and resume a job", Label("always"), "Pause and resume"),
		Entry("change a paused job", "Change a paused job"),
	)
})

var _ = Describe("A paused job", Label("always"), func() {
	BeforeEach(func() { waitLonger(2) }) // the training starts twice

	DescribeTable("has no pods, and trains again when it is resumed",
		func(ctx context.Context, train func(namespace, context.Context), job string) {
			n := newNamespace(ctx)
			train(n, ctx)
			pause := func(paused bool) {
				n.kubectl(ctx, "patch", job, "--type=merge", "-p",
					fmt.Sprintf(`{"spec": {"runMode": {"pause": {"enabled": %t}}}}`, paused))
			}
			pause(true)
			n.kubectl(ctx, "wait", "--for=condition=Paused", job, timeout)
			Expect(now(n.names(ctx, "pods"))).To(BeEmpty())
			pause(false)
			n.kubectl(ctx, "wait", "--for=condition=Completed", job, timeout)
			Eventually(ctx, n.output(ctx, "get", job, "-o", "jsonpath={.status.phase} {.status.pauses} {.status.backoffCount}")).
				Should(Equal("Succeeded 1 0"))
		},
		Entry("with TensorFlow", Label("tensorflow"), namespace.trainsLongWithTensorFlow, "tfjob/digits-multi-worker"),
		Entry("with DeepSpeed", Label("deepspeed"), namespace.trainsLongWithDeepSpeed, "dsjob/digits-zero"),
	)
})
