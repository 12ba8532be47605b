package test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// scale sets the number of replicas through the scale subresource, as kubectl scale and autoscalers do.
func scale(ctx context.Context, job *v1beta1.PyTorchTrainingJob, replicas int) {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	Expect(cluster.Client.SubResource("scale").Patch(ctx, job.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

var _ = Describe("An elastic job", func() {
	It("scales up and down without replacing its other pods", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, elasticTorchrun)
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		leader, peer := cluster.Pod(ctx, job, "job-worker-0"), cluster.Pod(ctx, job, "job-worker-1")
		Expect(leader.Spec.Containers[0].Command).To(ContainElement("--nnodes=1:4"))
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		scale(ctx, job, 3)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-0", "job-worker-1", "job-worker-2"))
		Eventually(ctx, func() string {
			return integration.Condition(cluster.Get(ctx, job), batchv1beta1.ConditionRunning).Reason
		}).Should(Equal(batchv1beta1.ReasonPartiallyRunning))
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseRunning))
		cluster.Run(ctx, job, "job-worker-2")
		Eventually(ctx, func() string {
			return integration.Condition(cluster.Get(ctx, job), batchv1beta1.ConditionRunning).Reason
		}).Should(Equal(batchv1beta1.ReasonReplicasRunning))

		Expect(cluster.Pod(ctx, job, "job-worker-1").UID).To(Equal(peer.UID))
		scale(ctx, job, 1)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-0"))
		Expect(cluster.Pod(ctx, job, "job-worker-0").UID).To(Equal(leader.UID))
		Expect(cluster.Get(ctx, job).Status.Failures).To(BeEmpty())
		Expect(job.Status.BackoffCount).To(BeZero())
	})

	It("reports its size and its pod selector to autoscalers", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, elasticTorchrun)
		scale := &autoscalingv1.Scale{}
		Eventually(ctx, func() int32 {
			Expect(cluster.Client.SubResource("scale").Get(ctx, job, scale)).To(Succeed())
			return scale.Status.Replicas
		}).Should(Equal(int32(2)))
		Expect(scale.Spec.Replicas).To(Equal(int32(2)))
		Expect(
			scale.Status.Selector,
		).To(Equal("batch.tensorstack.dev/job-kind=PyTorchTrainingJob,batch.tensorstack.dev/job-name=job"))
	})

	It("first removes replicas that do not run when it scales down", func(ctx context.Context) {
		job := cluster.Start(ctx, 3, elasticTorchrun, "spec: {elastic: {expectedReplicas: 3}}")
		cluster.Run(ctx, job, "job-worker-0", "job-worker-2")
		cluster.Edit(ctx, job, "spec: {elastic: {expectedReplicas: 2}}")
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-0", "job-worker-2"))
	})

	It("divides its replicas among its types by weight, and keeps one master", func(ctx context.Context) {
		job := cluster.Start(ctx, 4, elasticTorchrun,
			"spec: {elastic: {minReplicas: 1, maxReplicas: 20, expectedReplicas: 4}}", integration.ReplicaSpecs(
				"type: node, scalingWeight: 2, replicas: 7",
				"type: spot, scalingWeight: 1",
				"type: master, scalingWeight: 9, replicas: 5",
			))
		Expect(cluster.PodNames(ctx, job)).To(ConsistOf("job-master-0", "job-node-0", "job-node-1", "job-spot-0"))
		scale(ctx, job, 7)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-master-0", "job-node-0", "job-node-1", "job-node-2",
			"job-node-3", "job-spot-0", "job-spot-1"))
		scale(ctx, job, 2)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-master-0", "job-node-0"))
	})
})
