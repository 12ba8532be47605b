package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("The page about troubleshooting", func() {
	It("shows the log of a controller", Label("pytorch"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.follow(ctx, "docs/operate/troubleshooting.md", "The controllers")
	})

	DescribeTable("shows how to find the cause of a problem",
		func(ctx context.Context, section string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.follow(ctx, "docs/train/troubleshooting.md", section)
		},
		Entry("of a job that is Pending", Label("pytorch"), "Pending"),
		Entry("of a job that is Running", Label("pytorch"), "Running"),
		Entry("of a job that is Failed", Label("pytorch"), "Failed"),
		Entry("of a TensorBoard without its claim", Label("tensorboard"), "A TensorBoard"),
		Entry("of a job that no queue admits", Label("queues"), "A job in a queue"),
	)
})
