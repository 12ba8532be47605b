package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("Run modes", Label("pytorch"), func() {
	DescribeTable("are as the document shows",
		func(ctx context.Context, section string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.follow(ctx, "docs/run-modes.md", section)
		},
		Entry("debug", "Debug"),
		Entry("pause and resume", "Pause and resume"),
		Entry("a change of a paused job", "Change a paused job"),
	)
})
