package test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// resumable is a patch for a job of two workers that run torchrun. After a pause, the workers get other args.
const resumable = `
spec:
  torchrunConfig: {enabled: true}
  runMode: {pause: {resumeSpecs: [{type: worker, args: [train.py, --resume]}]}}
  replicaSpecs:
  - {type: worker, replicas: 2, template: {spec: {initContainers: [{name: fetch, image: training}], containers: [{name: pytorch, image: training, args: [train.py]}]}}}
`

// args returns a function for Eventually that reads the args of all pods of the job.
func args(ctx context.Context, job *v1beta1.PyTorchTrainingJob) func() [][]string {
	return func() [][]string {
		var list [][]string
		for _, name := range cluster.PodNames(ctx, job) {
			list = append(list, cluster.Pod(ctx, job, name).Spec.Containers[0].Args)
		}
		return list
	}
}

var _ = Describe("A paused job", func() {
	It("has no pods, and is resumed with the args of resumeSpecs", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, resumable)
		Expect(args(ctx, job)()).To(Equal([][]string{{"train.py"}, {"train.py"}}))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		cluster.Edit(ctx, job, integration.Paused)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		Expect(cluster.PodNames(ctx, job)).To(BeEmpty())
		Expect(job.Status.StartTime).To(BeNil())
		Expect(integration.Condition(job, batchv1beta1.ConditionPaused).Status).To(BeEquivalentTo("True"))

		cluster.Edit(ctx, job, integration.Resumed)
		Eventually(ctx, args(ctx, job)).Should(Equal([][]string{{"train.py", "--resume"}, {"train.py", "--resume"}}))
		Expect(cluster.Pod(ctx, job, "job-worker-0").Spec.Containers[0].Command).To(ContainElement(HavePrefix("--rdzv_id=")))
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseResuming))
		Expect(job.Status.StartTime).NotTo(BeNil())
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.BackoffCount).To(BeZero())
		Eventually(ctx,
			func() []string { return cluster.EventReasons(ctx, job) }).Should(ContainElements("Paused", "Resumed"))
	})

	It("starts without resumeSpecs if it was paused from the start", func(ctx context.Context) {
		job := cluster.Start(ctx, 0, resumable, integration.Paused)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		cluster.Edit(ctx, job, integration.Resumed)
		Eventually(ctx, args(ctx, job)).Should(Equal([][]string{{"train.py"}, {"train.py"}}))
	})

	It("is resumed with the changes that were made during the pause", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", ""))
		cluster.Edit(ctx, job, integration.Paused)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		cluster.Edit(ctx, job, `
spec:
  replicaSpecs:
  - {type: worker, replicas: 3, template: {spec: {containers: [{name: pytorch, image: training, args: [other.py]}]}}}
`)
		cluster.Edit(ctx, job, integration.Resumed)
		Eventually(ctx, args(ctx, job)).Should(Equal([][]string{{"other.py"}, {"other.py"}, {"other.py"}}))
	})

	It("has its full activeDeadlineSeconds again after a pause", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", "activeDeadlineSeconds: 2"))
		cluster.Edit(ctx, job, integration.Paused)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		started := job.CreationTimestamp.Time
		Eventually(ctx, func() time.Duration { return time.Since(started) }).Should(BeNumerically(">", 3*time.Second))
		Expect(cluster.Get(ctx, job).Status.Phase).To(Equal(batchv1beta1.JobPhasePaused))
		cluster.Edit(ctx, job, integration.Resumed)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		Expect(job.Status.StartTime.Sub(started)).To(BeNumerically(">", 2*time.Second))
		Expect(integration.Condition(job, batchv1beta1.ConditionFailed).Reason).To(Equal(batchv1beta1.ReasonDeadlineExceeded))
	})
})

var _ = Describe("A job in debug mode", func() {
	It("has its pods and their environment, but does not run its training", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, resumable, `
spec:
  runMode: {pause: null, debug: {enabled: true, replicaSpecs: [{type: worker, skipInitContainer: true}]}}
  replicaSpecs:
  - {type: worker, replicas: 2, template: {spec: {initContainers: [{name: fetch, image: training}], containers: [{name: pytorch, image: training, args: [train.py], readinessProbe: {exec: {command: ["true"]}}}]}}}
`)
		worker := cluster.Pod(ctx, job, "job-worker-1")
		main := worker.Spec.Containers[0]
		Expect(main.Command).To(Equal([]string{"sleep", "inf"}))
		Expect(main.Args).To(BeEmpty())
		Expect(main.ReadinessProbe).To(BeNil())
		Expect(main.Env).To(ContainElement(HaveField("Name", "MASTER_ADDR")))
		Expect(worker.Spec.InitContainers).To(HaveLen(1), "only the init container that waits for the leader is left")
		Expect(worker.Spec.InitContainers[0].Name).To(Equal("wait-for-peers"))
	})
})
