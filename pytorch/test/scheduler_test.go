package test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
)

var _ = Describe("A job with spec.scheduler.t9kScheduler", Ordered, func() {
	cluster.SchedulerSpecs()

	It("waits only for minReplicas, including its leader, if it is elastic", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), integration.InQueue, elasticTorchrun,
			"spec: {elastic: {expectedReplicas: 3}}")
		group := cluster.PodGroup(ctx, job)
		Expect(group.Spec.MinMember).To(Equal(int32(1)))
		Expect(group.Spec.Roles).To(ConsistOf(schedulerv1beta1.PodGroupRole{Name: "worker", MinMember: 1}))
		cluster.Admit(ctx, job)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(3))
		cluster.Run(ctx, job, "job-worker-0")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		scale(ctx, job, 4)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(4))
		Expect(cluster.Pod(ctx, job, "job-worker-3").Labels).To(HaveKeyWithValue(schedulerv1beta1.LabelGroupName, "job"))
		Expect(cluster.PodGroup(ctx, job).Generation).To(Equal(group.Generation), "scaling does not change the PodGroup")
	})

	It("writes nothing to its PodGroup while it runs, even if the PodGroup's status changes", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), integration.InQueue)
		cluster.Admit(ctx, job)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		writes := func() int {
			return len(cluster.Writes.In(job.Namespace, "/")) - len(cluster.Writes.In(job.Namespace, "/events"))
		}
		before := writes()
		for range 5 {
			cluster.Admit(ctx, job)
			cluster.Exit(ctx, job, "job-worker-1", 0, "")
		}
		Consistently(ctx, writes, time.Second).Should(BeNumerically("<=", before+1), "one write for the replica that ended")
		Expect(cluster.Writes.In(job.Namespace, "/podgroups")).To(HaveLen(1))
	})
})
