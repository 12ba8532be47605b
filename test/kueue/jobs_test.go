package kueue

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

var _ = Describe("Kueue", func() {
	It("admits a batch/v1 Job, which shows that it works here", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		c.apply(ctx, `
apiVersion: batch/v1
kind: Job
metadata: {name: plain, namespace: default, labels: {kueue.x-k8s.io/queue-name: queue}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: image, resources: {requests: {cpu: 1}}}]
`)
		Eventually(ctx, func() (int32, error) {
			job := &batchv1.Job{}
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "plain"}, job)
			return job.Status.Active, err
		}).Should(BeEquivalentTo(1))
	})

	for kind := range kinds {
		It("admits one "+kind+" after the other, evicts it for a more important one, and sees its end",
			func(ctx context.Context) {
				c := start(ctx, configuration, "8")
				c.apply(ctx, queues)
				first := c.job(ctx, kind, "first")
				Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
				Eventually(ctx, first.condition(ctx, kueuev1beta2.ConditionPodsReady)).Should(Equal("True Started"))

				By("letting a second job wait for the quota of the first")
				second := c.job(ctx, kind, "second")
				Eventually(ctx, second.state(ctx)).Should(And(HavePrefix("Pending Queued: "), ContainSubstring("insufficient")))
				Expect(second.pods(ctx)()).To(BeEmpty())

				By("evicting the first for an urgent job")
				urgent := c.job(ctx, kind, "urgent", kueuev1beta2.LabelPriorityClass+": urgent")
				Eventually(ctx, urgent.state(ctx)).Should(Equal("Running"))
				Expect(first.pods(ctx)()).To(BeEmpty(), "its quota is free only when its pods are gone")
				Eventually(ctx, first.state(ctx)).Should(HavePrefix("Pending Queued: "))
				Eventually(ctx, first.counts(ctx)).Should(Equal("evictions 1, pauses 0, attempt 0, backoffCount 0"))

				By("letting the urgent job end, and the others run in turn")
				// Kueue admits older Workloads first. If several Workloads were created in the same second, it can admit them in
				// any order.
				for waiting := []job{urgent, first, second}; len(waiting) > 0; {
					var next job
					Eventually(ctx, func(g Gomega) {
						runs := slices.IndexFunc(waiting, func(j job) bool {
							state, err := j.state(ctx)()
							g.Expect(err).NotTo(HaveOccurred())
							return state == "Running"
						})
						g.Expect(runs).NotTo(Equal(-1), "no job runs")
						next = waiting[runs]
					}).Should(Succeed())
					waiting = slices.DeleteFunc(waiting, func(j job) bool { return j == next })
					next.ends(ctx, 1)
					next.ends(ctx, 0)
					Eventually(ctx, next.state(ctx)).Should(Equal("Succeeded"))
					Eventually(ctx, next.condition(ctx, kueuev1beta2.ConditionFinished)).Should(Equal("True Succeeded"))
				}
				Eventually(ctx, first.counts(ctx)).Should(Equal("evictions 1, pauses 0, attempt 0, backoffCount 0"))

				By("deleting a job with its workload")
				Expect(c.Client.Delete(ctx, first.object())).To(Succeed())
				Eventually(ctx, func() error { _, err := first.workload(ctx); return err }).Should(Satisfy(apierrors.IsNotFound))
			})
	}
})
