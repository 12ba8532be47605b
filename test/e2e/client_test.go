package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("kubectl train", Label("install"), func() {
	It("prints the versions of the installed controllers", func(ctx context.Context) {
		newNamespace(ctx).follow(ctx, "docs/operate/installing.md", "kubectl train")
	})
})
