package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// These specs do not open a shell, because that needs a kubelet. test/e2e has a kubelet.
var _ = Describe("kubectl train debug", func() {
	It("refuses a job that is not in debug mode", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		_, _, err := n.train(ctx, "debug", "digits")
		Expect(err).To(MatchError(ContainSubstring(
			"ptjob/digits is not in debug mode, which can be chosen only when a job is created")))
	})

	It("waits until the job runs, and prints what it waits for", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, debugging("digits"))
		debug := n.start(ctx, "debug", "digits", "--", "hostname")
		Eventually(ctx, debug.errOut).Should(gbytes.Say("Waiting: Pending: 2 of 2 replicas are not running yet"))
		debug.interrupt()
		Eventually(ctx, debug.ended).Should(Receive(MatchError(ContainSubstring("interrupted"))))
	})
})
