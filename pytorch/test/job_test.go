package test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
)

const masterAndWorkers = `
spec:
  replicaSpecs:
  - {type: worker, replicas: 3, restartPolicy: OnFailure, template: {spec: {containers: [{name: pytorch, image: training}]}}}
  - {type: master, restartPolicy: OnFailure, template: {spec: {containers: [{name: pytorch, image: training}]}}}
`

// twoWorkers returns a patch for a job with two workers, a restart policy and a run policy.
func twoWorkers(restartPolicy, runPolicy string) string {
	return fmt.Sprintf(`
spec:
  runPolicy: {%s}
  replicaSpecs:
  - {type: worker, replicas: 2, restartPolicy: %s, template: {spec: {containers: [{name: pytorch, image: training}]}}}
`, runPolicy, restartPolicy)
}

var _ = Describe("A job", func() {
	It("runs from creation to Succeeded within the write budget", func(ctx context.Context) {
		job := cluster.Start(ctx, 4, masterAndWorkers)
		names := []string{"job-master-0", "job-worker-0", "job-worker-1", "job-worker-2"}
		Expect(cluster.PodNames(ctx, job)).To(ConsistOf(names))
		Expect(cluster.Get(ctx, job).Status.Phase).To(Equal(batchv1beta1.JobPhasePending),
			"the phase is Pending even before the first status is written")

		cluster.Run(ctx, job, names...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.StartTime).NotTo(BeNil())
		Expect(job.Status.Ready).To(Equal("4/4"))
		Expect(job.Status.Aggregate).To(Equal(&batchv1beta1.Aggregate{Running: 4}))

		for _, name := range []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-master-0"} {
			cluster.Exit(ctx, job, name, 0, "")
		}
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 4}))
		Expect(meta.IsStatusConditionTrue(job.Status.Conditions, batchv1beta1.ConditionCompleted)).To(BeTrue())
		Expect(job.Status.CompletionTime).NotTo(BeNil())
		Expect(cluster.PodNames(ctx, job)).To(ConsistOf(names),
			"ended pods stay, with their logs, under cleanUpPolicy Unfinished")

		cluster.ExpectWriteBudget(ctx, job, 4)
	})

	It("runs, restarts and succeeds even if it is too large for the cache", func(ctx context.Context) {
		value := strings.Repeat("a", 100<<10)
		env := fmt.Sprintf("[{name: A, value: %[1]s}, {name: B, value: %[1]s}]", value)
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", ""), fmt.Sprintf(`
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    restartPolicy: OnFailure
    template: {spec: {containers: [{name: pytorch, image: training, env: %s}]}}
`, env))
		names := []string{"job-worker-0", "job-worker-1"}
		worker := cluster.Pod(ctx, job, "job-worker-1").Spec.Containers[0]
		Expect(worker.Env).To(ContainElement(corev1.EnvVar{Name: "B", Value: value}))
		cluster.Run(ctx, job, names...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		failed := cluster.Exit(ctx, job, "job-worker-1", 1, "")
		cluster.Replacement(ctx, failed)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf(names))
		cluster.Run(ctx, job, names...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.BackoffCount).To(Equal(int32(1)))
		for _, name := range names {
			cluster.Exit(ctx, job, name, 0, "")
		}
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
	})

	It("owns every object that it creates, so that deleting the job deletes them all", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		var service corev1.Service
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), &service)).To(Succeed())
		Expect(service.Spec.ClusterIP).To(Equal(corev1.ClusterIPNone))
		Expect(service.Spec.PublishNotReadyAddresses).To(BeTrue())
		for _, object := range []client.Object{
			&service, cluster.Pod(ctx, job, "job-worker-0"), cluster.Pod(ctx, job, "job-worker-1"),
		} {
			Expect(metav1.IsControlledBy(object, job)).To(BeTrue())
		}
	})

	It("recreates its Service if somebody deletes it", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		var service corev1.Service
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), &service)).To(Succeed())
		deleted := service.UID
		Expect(cluster.Client.Delete(ctx, &service)).To(Succeed())
		Eventually(ctx, func() bool {
			return cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), &service) == nil && service.UID != deleted
		}).Should(BeTrue())
	})

	It("gives every replica its name, its labels and the address of the leader", func(ctx context.Context) {
		job := cluster.Start(ctx, 4, masterAndWorkers)
		p := cluster.Pod(ctx, job, "job-worker-1")
		Expect(p.Labels).To(HaveKeyWithValue(batchv1beta1.LabelJobKind, "PyTorchTrainingJob"))
		Expect(p.Labels).To(HaveKeyWithValue(batchv1beta1.LabelJobName, "job"))
		Expect(p.Labels).To(HaveKeyWithValue(batchv1beta1.LabelReplicaType, "worker"))
		Expect(p.Labels).To(HaveKeyWithValue(batchv1beta1.LabelReplicaIndex, "1"))
		Expect(p.Spec.Hostname).To(Equal("job-worker-1"))
		Expect(p.Spec.Subdomain).To(Equal("job"))
		Expect(p.Spec.RestartPolicy).To(Equal(corev1.RestartPolicyNever))
		Expect(p.Spec.InitContainers).To(HaveLen(1))
		leader := "job-master-0.job." + job.Namespace + ".svc.cluster.local"
		Expect(p.Spec.InitContainers[0].Image).To(Equal("controller:test"))
		Expect(p.Spec.InitContainers[0].Args).To(Equal([]string{"wait-dns", "--timeout", "10m0s", leader}))
		Expect(p.Spec.Containers[0].TerminationMessagePolicy).To(Equal(corev1.TerminationMessageFallbackToLogsOnError))
		env := map[string]string{}
		for _, e := range p.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		Expect(cmp.Diff(map[string]string{
			"MASTER_ADDR": leader, "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "0", "NODE_RANK": "2",
			"PYTHONUNBUFFERED": "1",
		}, env)).To(BeEmpty())
		Expect(cluster.Pod(ctx, job, "job-master-0").Spec.InitContainers).To(BeEmpty(), "the leader does not wait")
	})

	It("reports why it does not run", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		p := cluster.Pod(ctx, job, "job-worker-1")
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
		}}
		Expect(cluster.Client.Status().Update(ctx, p)).To(Succeed())
		cluster.Run(ctx, job, "job-worker-0")
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonUnschedulable))
		running := integration.Condition(job, batchv1beta1.ConditionRunning)
		Expect(running.Status).To(Equal(metav1.ConditionFalse))
		Expect(
			running.Message,
		).To(ContainSubstring("job-worker-1 cannot be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"))
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhasePending))
	})

	It("never changes an object that it does not own", func(ctx context.Context) {
		namespace := cluster.NewNamespace(ctx)
		foreign := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "job-worker-1", Labels: map[string]string{"whose": "mine"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		Expect(cluster.Client.Create(ctx, foreign)).To(Succeed())
		job := cluster.Create(ctx, namespace)
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonNameConflict))
		Expect(
			integration.Condition(job, batchv1beta1.ConditionInitialized).Message,
		).To(ContainSubstring("the job needs pod job-worker-1, but one exists that is not the job's"))
		Expect(cluster.Pod(ctx, job, "job-worker-1").UID).To(Equal(foreign.UID))

		Expect(cluster.Client.Delete(ctx, foreign, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(ctx, func() bool {
			return meta.IsStatusConditionTrue(cluster.Get(ctx, job).Status.Conditions, batchv1beta1.ConditionInitialized)
		}).Should(BeTrue(), "the job starts when the name is free")
		Expect(metav1.IsControlledBy(cluster.Pod(ctx, job, "job-worker-1"), job)).To(BeTrue())
	})

	It("replaces a pod whose labels somebody changed, and runs again", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", ""))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		old := cluster.Pod(ctx, job, "job-worker-1")
		taken := old.DeepCopy()
		delete(taken.Labels, batchv1beta1.LabelJobKind)
		Expect(cluster.Client.Patch(ctx, taken, client.MergeFrom(old))).To(Succeed())

		Expect(metav1.IsControlledBy(cluster.Replacement(ctx, old), job)).To(BeTrue())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-0", "job-worker-1"))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.BackoffCount).To(BeZero())
	})

	It("reports which quota blocks it, and starts when the quota is gone", func(ctx context.Context) {
		namespace := cluster.NewNamespace(ctx)
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("0")}},
		}
		Expect(cluster.Client.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = corev1.ResourceList{"services": resource.MustParse("0")}
		Expect(cluster.Client.Status().Update(ctx, quota)).To(Succeed())
		job := cluster.Create(ctx, namespace)
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonCreateFailed))
		Expect(
			integration.Condition(job, batchv1beta1.ConditionInitialized).Message,
		).To(ContainSubstring("exceeded quota: few"))
		Expect(
			integration.Condition(job, batchv1beta1.ConditionRunning).Message,
		).To(ContainSubstring("exceeded quota: few"), "the message that kubectl get shows")

		Expect(cluster.Client.Delete(ctx, quota)).To(Succeed())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
	})

	It("runs a fixed number of replicas, and reports this, if it is elastic without torchrun", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 4}}`)
		notice := "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
		Expect(integration.Condition(cluster.Get(ctx, job), batchv1beta1.ConditionInitialized).Message).To(HaveSuffix(notice))
		Eventually(ctx, func() []string { return cluster.EventReasons(ctx, job) }).Should(ContainElement("NoEffect"))
	})
})

var _ = Describe("A job whose replica fails", func() {
	It("ends Failed and reports the replica, its exit code and its last output", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("Never", ""))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-1", 3, "Traceback (most recent call last):\nValueError: no data")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		failed := integration.Condition(job, batchv1beta1.ConditionFailed)
		Expect(failed.Reason).To(Equal(batchv1beta1.ReasonPermanentFailure))
		Expect(failed.Message).To(Equal("replica job-worker-1 (rank 1) failed with exit code 3 (Error), " +
			"which restart policy Never does not restart; " +
			"its last output:\nTraceback (most recent call last):\nValueError: no data"))
		Expect(job.Status.Failures).To(HaveLen(1))
		Expect(job.Status.Failures[0].ExitCode).To(Equal(ptr.To[int32](3)))
		Expect(job.Status.BackoffCount).To(BeZero())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-1"), "the pod that still ran is cleaned up")
	})

	It("restarts all replicas of a collective as one counted restart, and fails at the limit", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", "backoffLimit: 1"))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		survivor := cluster.Pod(ctx, job, "job-worker-0")
		failed := cluster.Exit(ctx, job, "job-worker-1", 1, "first")
		cluster.Replacement(ctx, failed)
		cluster.Replacement(ctx, survivor)
		Expect(cluster.Get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Attempt).To(Equal(int32(1)))
		Expect(job.Status.Tasks[0].RestartCount).To(Equal(int32(2)))

		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-0", 7, "second")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		Expect(
			integration.Condition(job, batchv1beta1.ConditionFailed).Reason,
		).To(Equal(batchv1beta1.ReasonBackoffLimitExceeded))
		Expect(
			integration.Condition(job, batchv1beta1.ConditionFailed).Message,
		).To(ContainSubstring("replica job-worker-0 (rank 0) failed with exit code 7"))
		Expect(job.Status.BackoffCount).To(Equal(int32(1)), "the failure that exceeds the limit is not counted")
		Expect(job.Status.Failures).To(HaveLen(2))
	})

	It("restarts only the failed replica with scope Replica", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", "restartScope: Replica"))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		survivor := cluster.Pod(ctx, job, "job-worker-0")
		cluster.Replacement(ctx, cluster.Exit(ctx, job, "job-worker-1", 1, ""))
		Expect(cluster.Pod(ctx, job, "job-worker-0").UID).To(Equal(survivor.UID))
		Expect(cluster.Get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Tasks[0].Replicas[1].Attempt).To(Equal(int32(1)))
	})

	It("with scope Replica and policy Never does not restart a failed worker, and lets the leader decide",
		func(ctx context.Context) {
			job := cluster.Start(ctx, 2, twoWorkers("Never", "restartScope: Replica"))
			cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
			cluster.Exit(ctx, job, "job-worker-1", 1, "")
			Eventually(ctx, func() bool {
				return meta.IsStatusConditionTrue(cluster.Get(ctx, job).Status.Conditions, batchv1beta1.ConditionReplicaFailure)
			}).Should(BeTrue())
			Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseRunning))
			cluster.Exit(ctx, job, "job-worker-0", 0, "")
			Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		})

	DescribeTable("with restartPolicy ExitCode",
		func(ctx context.Context, code int, restarts bool) {
			job := cluster.Start(ctx, 2, twoWorkers("ExitCode", ""))
			cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
			ended := cluster.Exit(ctx, job, "job-worker-0", int32(code), "")
			if restarts {
				cluster.Replacement(ctx, ended)
				return
			}
			Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
			Expect(
				integration.Condition(job, batchv1beta1.ConditionFailed).Reason,
			).To(Equal(batchv1beta1.ReasonPermanentFailure))
		},
		Entry("restarts after SIGINT", 130, true),
		Entry("restarts after SIGKILL", 137, true),
		Entry("restarts after SIGUSR1, which programs use to request a restart", 138, true),
		Entry("restarts after SIGTERM", 143, true),
		Entry("does not restart after an error of the program", 1, false),
		Entry("does not restart after a segmentation fault", 139, false),
	)

	It("with restartPolicy Always restarts a worker that succeeded, but ends when the leader succeeds",
		func(ctx context.Context) {
			job := cluster.Start(ctx, 2, twoWorkers("Always", ""))
			cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
			cluster.Replacement(ctx, cluster.Exit(ctx, job, "job-worker-1", 0, ""))
			Expect(cluster.Get(ctx, job).Status.BackoffCount).To(BeZero())
			cluster.Exit(ctx, job, "job-worker-0", 0, "")
			Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		})

	It("does not count the restart after a pod was deleted", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", "backoffLimit: 0"))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, func() string { return cluster.Get(ctx, job).Status.Ready }).Should(Equal("2/2"))
		lost, peer := cluster.Pod(ctx, job, "job-worker-1"), cluster.Pod(ctx, job, "job-worker-0")
		Expect(cluster.Client.Delete(ctx, lost, client.GracePeriodSeconds(0))).To(Succeed())
		cluster.Replacement(ctx, lost)
		cluster.Replacement(ctx, peer) // the peer is also replaced, because it would wait for the lost worker
		Expect(cluster.Get(ctx, job).Status.BackoffCount).To(BeZero())
		Expect(job.Status.Failures[0].Reason).To(Equal(batchv1beta1.ReasonDeleted))
		Expect(job.Status.Phase).NotTo(Equal(batchv1beta1.JobPhaseFailed))
	})
})

var _ = Describe("A job with a deadline", func() {
	It("fails at the deadline, although no event triggers a reconcile", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", "activeDeadlineSeconds: 1"))
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		Expect(integration.Condition(job, batchv1beta1.ConditionFailed).Reason).To(Equal(batchv1beta1.ReasonDeadlineExceeded))
		Expect(job.Status.CompletionTime.Sub(job.Status.StartTime.Time)).To(BeNumerically(">=", time.Second))
		Eventually(ctx, cluster.Pods(ctx, job)).Should(BeEmpty())
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Deleted: 2}))
	})
})

var _ = Describe("A job with ttlSecondsAfterFinished", func() {
	It("is deleted when the time has passed, although no event triggers a reconcile", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("Never", "ttlSecondsAfterFinished: 1"))
		cluster.Exit(ctx, job, "job-worker-0", 1, "")
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), job))
		}).Should(BeTrue())
	})
})

var _ = DescribeTable("A finished job with cleanUpPolicy",
	func(ctx context.Context, cleanUp string, want []string, wantAggregate batchv1beta1.Aggregate) {
		job := cluster.Start(ctx, 2, twoWorkers("OnFailure", "cleanUpPolicy: "+cleanUp))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		final := cluster.Get(ctx, job).DeepCopy()
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf(want))
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&wantAggregate))
		Expect(job.Status.Conditions).To(Equal(final.Status.Conditions), "the result does not change")
		Expect(job.Status.CompletionTime).To(Equal(final.Status.CompletionTime))
	},
	Entry("All deletes all pods", "All", []string{}, batchv1beta1.Aggregate{Deleted: 2}),
	Entry("Unfinished deletes only the pods that still run", "Unfinished", []string{"job-worker-0"},
		batchv1beta1.Aggregate{Succeeded: 1, Deleted: 1}),
	Entry("None deletes no pod", "None", []string{"job-worker-0", "job-worker-1"},
		batchv1beta1.Aggregate{Succeeded: 1, Running: 1}),
)
