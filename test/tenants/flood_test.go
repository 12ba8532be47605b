package tenants

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A flood of jobs of one tenant", Label("time"), func() {
	forEachJob("does not delay the job of another to its end", func(ctx context.Context, s service) {
		c, begun := flood(ctx, s)
		Expect(begun).To(BeNumerically("<", floodJobs/2))
		c.jobSucceeds(ctx, s, "after")
		c.expectUnharmed()
	})

	It("would delay others if all namespaces were one tenant", Label("pytorch"), func(ctx context.Context) {
		_, begun := flood(ctx, pytorch.with("all namespaces are one tenant"))
		Expect(begun).To(BeNumerically(">=", floodJobs/2))
	})
})

// floodJobs is how many jobs a flood has.
const floodJobs = 1000

// flood lets the attacker create many jobs, and then the victim one. It returns how many of the attacker's jobs had
// pods when the victim's job had all of its pods.
func flood(ctx context.Context, s service) (*cluster, int) {
	GinkgoHelper()
	c := start(ctx, s.module)
	controller := c.run(ctx, s)
	c.works(ctx, s, "before")

	By("freezing the controller while the jobs are created, so that it sees all of them at once")
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
	entry := fmt.Sprintf("the victim's job had its pods when %d of %d jobs of the flood had any", len(begun), floodJobs)
	AddReportEntry(entry, ReportEntryVisibilityAlways)
	return c, len(begun)
}
