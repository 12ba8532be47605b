package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("What does not go well", func() {
	DescribeTable("is found as the document shows",
		func(ctx context.Context, section string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.follow(ctx, "docs/troubleshooting.md", section)
		},
		Entry("a job that waits", Label("pytorch"), "Pending"),
		Entry("a job that runs", Label("pytorch"), "Running"),
		Entry("a job that failed", Label("pytorch"), "Failed"),
		Entry("a TensorBoard without its claim", Label("tensorboard"), "A TensorBoard"),
		Entry("a job that no queue takes", Label("queues"), "A job in a queue"),
		Entry("by the log of a controller", Label("pytorch"), "The controllers"),
	)
})
