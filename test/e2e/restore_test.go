package e2e

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The node and its pods continue to run while the control plane is restored, so their state is newer than the objects.
var _ = Describe("A cluster whose etcd is restored from a snapshot", Label("pytorch", "faults"), Serial, func() {
	It("completes the jobs of the snapshot, and ends the pods of later jobs", func(ctx context.Context) {
		cluster := localClusterOrSkip("the test restores the etcd of the local cluster")
		unchanged, completed, restarted, deleted := startSteady(ctx), startSteady(ctx), startSteady(ctx), startSteady(ctx)
		created := newNamespace(ctx)
		trained := unchanged.trainsSteadily(ctx)
		completed.trainsSteadily(ctx)
		before := restarted.trainsSteadily(ctx)
		deleted.trainsSteadily(ctx)
		snapshot := filepath.Join(GinkgoT().TempDir(), "snapshot.db")
		Expect(cluster.SaveSnapshot(ctx, snapshot)).To(Succeed())

		completed.completes(ctx)
		kill(before["steady-worker-1"], "steady.py")
		restarted.isRestarted(ctx, before)
		deleted.kubectl(ctx, "delete", "ptjob", "steady")
		Eventually(ctx, deleted.pods(ctx)).Should(BeEmpty())
		created.startSteady(ctx)
		later := created.trainsSteadily(ctx)
		Expect(processes(later["steady-worker-0"], "steady.py")).NotTo(BeEmpty())
		Expect(cluster.RestoreSnapshot(ctx, snapshot)).To(Succeed())

		By("waiting for the job that has not changed since the snapshot")
		unchanged.completes(ctx)
		Eventually(ctx, unchanged.account(ctx)).Should(Equal(account{pods: 2}))
		Expect(now(unchanged.replicas(ctx))).To(Equal(trained))

		By("waiting for the jobs that have changed since the snapshot")
		for _, n := range []namespace{completed, restarted, deleted} {
			Eventually(ctx, func() (string, error) {
				// If the kubelet still knows that the pods have succeeded, the job completes. Otherwise, it trains again.
				_, _ = kubectl(ctx, "-n", string(n), "exec", "steady-worker-0", "-c", "pytorch", "--", "touch", "/tmp/enough")
				return n.output(ctx, "get", "ptjob", "steady", "-o", "jsonpath={.status.phase}")()
			}).Should(Equal("Succeeded"))
			Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(Or(BeEmpty(), HaveLen(1)))
		}

		By("waiting until nothing is left of the job that was created after the snapshot")
		Eventually(ctx, func() []int { return processes(later["steady-worker-0"], "steady.py") }).Should(BeEmpty())
		Expect(now(created.output(ctx, "get", "ptjob,pods", "-o", "name"))).To(BeEmpty())
	})
})
