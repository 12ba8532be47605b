package tenants

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A flood of jobs of one tenant", Label("time"), func() {
	forEachJob("does not make the job of another tenant wait for the whole flood:", func(ctx context.Context, s service) {
		c, begun := flood(ctx, s)
		Expect(begun).To(BeNumerically("<", floodJobs/2))
		c.jobSucceeds(ctx, s, "after")
		c.expectUnharmed()
	})

	It("would delay other tenants if all namespaces were one tenant", Label("pytorch"), func(ctx context.Context) {
		_, begun := flood(ctx, pytorch.with("all namespaces are one tenant"))
		Expect(begun).To(BeNumerically(">=", floodJobs/2))
	})
})

// floodJobs is the number of jobs of a flood.
const floodJobs = 1000

// flood creates many jobs of the attacker and then a job of the victim. It returns how many of the attacker's jobs had
// pods when the victim's job had all its pods.
func flood(ctx context.Context, s service) (*cluster, int) {
	GinkgoHelper()
	c := start(ctx, s.module)
	controller := c.run(ctx, s)
	c.works(ctx, s, "before")

	By("freezing the controller while the jobs are created, so that it sees all of them at the same time")
	Expect(c.Freeze(controller.name)).To(Succeed())
	c.inParallel(floodJobs, func(i int) error {
		return create(ctx, c.attacker, attacker, s.job(fmt.Sprintf("flood-%d", i), 4, plain()))
	})
	Expect(c.Thaw(controller.name)).To(Succeed())
	Eventually(ctx, func() (int, error) { return c.count(ctx, attacker, s) }).Should(BeNumerically(">", 0))

	Expect(create(ctx, c.victim, victim, s.job("after", 2, plain()))).To(Succeed())
	c.jobHasPods(ctx, s, "after")
	begun, err := c.jobsWithPods(ctx, attacker, s)
	Expect(err).NotTo(HaveOccurred())
	entry := fmt.Sprintf("%d of %d jobs of the flood had pods when the victim's job had its pods", len(begun), floodJobs)
	AddReportEntry(entry, ReportEntryVisibilityAlways)
	return c, len(begun)
}
