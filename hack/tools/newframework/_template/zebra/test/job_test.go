package test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

var _ = Describe("A job", func() {
	It("runs from creation to Succeeded within the write budget", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		cluster.Run(ctx, job, cluster.PodNames(ctx, job)...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		cluster.Exit(ctx, job, "job-worker-1", 0, "")
		cluster.Exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 2}))
		cluster.ExpectWriteBudget(ctx, job, 2)
	})
})

var _ = Describe("A job with spec.scheduler.t9kScheduler", Ordered, func() { cluster.SchedulerSpecs() })
