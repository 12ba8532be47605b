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
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/frameworktest/kubelet"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// start creates a job from the patches and returns it with its namespace, once its pods are there.
func start(ctx context.Context, pods int, patches ...string) *v1beta1.PyTorchTrainingJob {
	job := jobFrom(newNamespace(ctx), patches...)
	Expect(k8s.Create(ctx, job)).To(Succeed())
	created := typed(job)
	Eventually(ctx, func() []string { return podNames(ctx, created) }).Should(HaveLen(pods))
	return created
}

func get(ctx context.Context, job *v1beta1.PyTorchTrainingJob) *v1beta1.PyTorchTrainingJob {
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
	return job
}

// phase returns a function that reads the job's phase, for Eventually.
func phase(ctx context.Context, job *v1beta1.PyTorchTrainingJob) func() batchv1beta1.JobPhase {
	return func() batchv1beta1.JobPhase { return get(ctx, job).Status.Phase }
}

func podNames(ctx context.Context, job *v1beta1.PyTorchTrainingJob) []string {
	var pods corev1.PodList
	Expect(k8s.List(ctx, &pods, client.InNamespace(job.Namespace),
		client.MatchingLabels{batchv1beta1.LabelJobName: job.Name, batchv1beta1.LabelJobKind: v1beta1.Kind})).To(Succeed())
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	return names
}

func pod(ctx context.Context, job *v1beta1.PyTorchTrainingJob, name string) *corev1.Pod {
	var p corev1.Pod
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: name}, &p)).To(Succeed())
	return &p
}

// replacement waits for a pod of the name that is not the given one, and returns it.
func replacement(ctx context.Context, old *corev1.Pod) *corev1.Pod {
	var p corev1.Pod
	Eventually(ctx, func() bool {
		return k8s.Get(ctx, client.ObjectKeyFromObject(old), &p) == nil && p.UID != old.UID
	}).Should(BeTrue(), "a new pod %s", old.Name)
	return &p
}

// run lets the pods run, as a kubelet would.
func run(ctx context.Context, job *v1beta1.PyTorchTrainingJob, names ...string) {
	for _, name := range names {
		Expect(plane.ChangePod(ctx, pod(ctx, job, name), func(p *corev1.Pod) { kubelet.Run(p, "", time.Now()) })).To(Succeed())
	}
}

// exit ends the main container of a pod.
func exit(ctx context.Context, job *v1beta1.PyTorchTrainingJob, name string, code int32, output string) *corev1.Pod {
	p := pod(ctx, job, name)
	Expect(plane.ChangePod(ctx, p, func(p *corev1.Pod) { kubelet.Exit(p, code, output, time.Now()) })).To(Succeed())
	return p
}

// condition returns a condition of the job, or an empty one.
func condition(job *v1beta1.PyTorchTrainingJob, conditionType string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(job.Status.Conditions, conditionType), metav1.Condition{})
}

const masterAndWorkers = `
spec:
  replicaSpecs:
  - {type: worker, replicas: 3, restartPolicy: OnFailure, template: {spec: {containers: [{name: pytorch, image: training}]}}}
  - {type: master, restartPolicy: OnFailure, template: {spec: {containers: [{name: pytorch, image: training}]}}}
`

// twoWorkers is a job of two workers with a restart policy and a run policy.
func twoWorkers(restartPolicy, runPolicy string) string {
	return fmt.Sprintf(`
spec:
  runPolicy: {%s}
  replicaSpecs:
  - {type: worker, replicas: 2, restartPolicy: %s, template: {spec: {containers: [{name: pytorch, image: training}]}}}
`, runPolicy, restartPolicy)
}

var _ = Describe("A job", func() {
	It("runs from create to Succeeded within the write budget", func(ctx context.Context) {
		job := start(ctx, 4, masterAndWorkers)
		names := []string{"job-master-0", "job-worker-0", "job-worker-1", "job-worker-2"}
		Expect(podNames(ctx, job)).To(ConsistOf(names))
		Expect(get(ctx, job).Status.Phase).To(Equal(batchv1beta1.JobPhasePending))
		Expect(job.Status.StartTime).NotTo(BeNil())

		run(ctx, job, names...)
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.Ready).To(Equal("4/4"))
		Expect(job.Status.Aggregate).To(Equal(&batchv1beta1.Aggregate{Running: 4}))

		for _, name := range []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-master-0"} {
			exit(ctx, job, name, 0, "")
		}
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, func() *batchv1beta1.Aggregate { return get(ctx, job).Status.Aggregate }).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 4}))
		Expect(meta.IsStatusConditionTrue(job.Status.Conditions, batchv1beta1.ConditionCompleted)).To(BeTrue())
		Expect(job.Status.CompletionTime).NotTo(BeNil())
		Expect(podNames(ctx, job)).To(ConsistOf(names), "ended pods stay, with their logs, under cleanUpPolicy Unfinished")

		// Events are written asynchronously; the last one is the job's end.
		Eventually(ctx, func() []string { return eventReasons(ctx, job) }).Should(ContainElement("Completed"))
		Expect(eventReasons(ctx, job)).To(ConsistOf("Created", "Running", "Completed"))

		Expect(plane.Writes.In(job.Namespace, "/pods")).To(HaveLen(4), "one write a pod")
		Expect(plane.Writes.In(job.Namespace, "/services")).To(HaveLen(1))
		Expect(len(plane.Writes.In(job.Namespace, "/status"))).To(BeNumerically("<=", 4))
		Expect(len(plane.Writes.In(job.Namespace, "/events"))).To(BeNumerically("<=", 4))
		other := len(plane.Writes.In(job.Namespace, "/")) - len(plane.Writes.In(job.Namespace, "/pods")) - len(plane.Writes.In(job.Namespace, "/services")) -
			len(plane.Writes.In(job.Namespace, "/status")) - len(plane.Writes.In(job.Namespace, "/events"))
		Expect(other).To(BeZero(), "nothing else is written: %v", plane.Writes.In(job.Namespace, "/"))
	})

	It("owns what it creates, so that deleting it leaves nothing", func(ctx context.Context) {
		job := get(ctx, start(ctx, 2))
		var service corev1.Service
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(job), &service)).To(Succeed())
		Expect(service.Spec.ClusterIP).To(Equal(corev1.ClusterIPNone))
		Expect(service.Spec.PublishNotReadyAddresses).To(BeTrue())
		for _, object := range []client.Object{&service, pod(ctx, job, "job-worker-0"), pod(ctx, job, "job-worker-1")} {
			Expect(metav1.IsControlledBy(object, job)).To(BeTrue())
		}
	})

	It("creates its Service again if somebody deletes it", func(ctx context.Context) {
		job := start(ctx, 2)
		var service corev1.Service
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(job), &service)).To(Succeed())
		deleted := service.UID
		Expect(k8s.Delete(ctx, &service)).To(Succeed())
		Eventually(ctx, func() bool {
			return k8s.Get(ctx, client.ObjectKeyFromObject(job), &service) == nil && service.UID != deleted
		}).Should(BeTrue())
	})

	It("gives every replica its name, its labels and what it needs to find the leader", func(ctx context.Context) {
		job := start(ctx, 4, masterAndWorkers)
		p := pod(ctx, job, "job-worker-1")
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
			"MASTER_ADDR": leader, "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "2", "PYTHONUNBUFFERED": "1",
		}, env)).To(BeEmpty())
		Expect(pod(ctx, job, "job-master-0").Spec.InitContainers).To(BeEmpty(), "the leader waits for nobody")
	})

	It("says why it does not run", func(ctx context.Context) {
		job := start(ctx, 2)
		p := pod(ctx, job, "job-worker-1")
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
		}}
		Expect(k8s.Status().Update(ctx, p)).To(Succeed())
		run(ctx, job, "job-worker-0")
		Eventually(ctx, func() string { return get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonUnschedulable))
		running := condition(job, batchv1beta1.ConditionRunning)
		Expect(running.Status).To(Equal(metav1.ConditionFalse))
		Expect(running.Message).To(ContainSubstring("job-worker-1 cannot be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"))
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhasePending))
	})

	It("never touches an object that is not its own", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		foreign := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job-worker-1", Labels: map[string]string{"whose": "mine"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		Expect(k8s.Create(ctx, foreign)).To(Succeed())
		object := jobFrom(namespace)
		Expect(k8s.Create(ctx, object)).To(Succeed())
		job := typed(object)
		Eventually(ctx, func() string { return get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonNameConflict))
		Expect(condition(job, batchv1beta1.ConditionInitialized).Message).To(ContainSubstring("the job needs pod job-worker-1, but one exists that is not the job's"))
		Expect(pod(ctx, job, "job-worker-1").UID).To(Equal(foreign.UID))

		Expect(k8s.Delete(ctx, foreign, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(ctx, func() bool {
			return meta.IsStatusConditionTrue(get(ctx, job).Status.Conditions, batchv1beta1.ConditionInitialized)
		}).Should(BeTrue(), "the job goes on once the name is free")
		Expect(metav1.IsControlledBy(pod(ctx, job, "job-worker-1"), job)).To(BeTrue())
	})

	It("says which quota keeps it from creating pods, and goes on when there is room", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("0")}},
		}
		Expect(k8s.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = corev1.ResourceList{"services": resource.MustParse("0")}
		Expect(k8s.Status().Update(ctx, quota)).To(Succeed())
		object := jobFrom(namespace)
		Expect(k8s.Create(ctx, object)).To(Succeed())
		job := typed(object)
		Eventually(ctx, func() string { return get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonCreateFailed))
		Expect(condition(job, batchv1beta1.ConditionInitialized).Message).To(ContainSubstring("exceeded quota: few"))

		Expect(k8s.Delete(ctx, quota)).To(Succeed())
		Eventually(ctx, func() []string { return podNames(ctx, job) }).Should(HaveLen(2))
	})

	It("runs its plain replicas, and says so, if it is elastic without torchrun", func(ctx context.Context) {
		job := start(ctx, 2, `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 4}}`)
		notice := "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
		Expect(condition(get(ctx, job), batchv1beta1.ConditionInitialized).Message).To(HaveSuffix(notice))
		Eventually(ctx, func() []string { return eventReasons(ctx, job) }).Should(ContainElement("NoEffect"))
	})

	It("is held, and says so, if it asks for what this version does not do: a queue", func(ctx context.Context) {
		object := jobFrom(newNamespace(ctx), `spec: {scheduler: {t9kScheduler: {queue: default}}}`)
		Expect(k8s.Create(ctx, object)).To(Succeed())
		job := typed(object)
		Eventually(ctx, func() string { return get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonNotSupported))
		Expect(condition(job, batchv1beta1.ConditionInitialized).Message).To(ContainSubstring("spec.scheduler.t9kScheduler is not supported"))
		Eventually(ctx, func() []string { return eventReasons(ctx, job) }).Should(ConsistOf(batchv1beta1.ReasonNotSupported))
		Expect(podNames(ctx, job)).To(BeEmpty())
	})
})

var _ = Describe("A job whose replica fails", func() {
	It("ends Failed with the replica, its exit code and the tail of its output", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("Never", ""))
		run(ctx, job, "job-worker-0", "job-worker-1")
		exit(ctx, job, "job-worker-1", 3, "Traceback (most recent call last):\nValueError: no data")
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		failed := condition(job, batchv1beta1.ConditionFailed)
		Expect(failed.Reason).To(Equal(batchv1beta1.ReasonPermanentFailure))
		Expect(failed.Message).To(Equal("replica job-worker-1 failed with exit code 3 (Error), which restart policy Never does not restart; " +
			"its last output:\nTraceback (most recent call last):\nValueError: no data"))
		Expect(job.Status.Failures).To(HaveLen(1))
		Expect(job.Status.Failures[0].ExitCode).To(Equal(ptr.To[int32](3)))
		Expect(job.Status.BackoffCount).To(BeZero())
		Eventually(ctx, func() []string { return podNames(ctx, job) }).Should(ConsistOf("job-worker-1"), "the pod that ran on is cleaned up")
	})

	It("restarts every replica of a collective, counts that once, and stops at the limit", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("OnFailure", "backoffLimit: 1"))
		run(ctx, job, "job-worker-0", "job-worker-1")
		survivor := pod(ctx, job, "job-worker-0")
		failed := exit(ctx, job, "job-worker-1", 1, "first")
		replacement(ctx, failed)
		replacement(ctx, survivor)
		Expect(get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Attempt).To(Equal(int32(1)))
		Expect(job.Status.Tasks[0].RestartCount).To(Equal(int32(2)))

		run(ctx, job, "job-worker-0", "job-worker-1")
		exit(ctx, job, "job-worker-0", 7, "second")
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		Expect(condition(job, batchv1beta1.ConditionFailed).Reason).To(Equal(batchv1beta1.ReasonBackoffLimitExceeded))
		Expect(condition(job, batchv1beta1.ConditionFailed).Message).To(ContainSubstring("replica job-worker-0 failed with exit code 7"))
		Expect(job.Status.BackoffCount).To(Equal(int32(1)), "the failure that exceeds the limit is not added")
		Expect(job.Status.Failures).To(HaveLen(2))
	})

	It("restarts only the failed replica with scope Replica", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("OnFailure", "restartScope: Replica"))
		run(ctx, job, "job-worker-0", "job-worker-1")
		survivor := pod(ctx, job, "job-worker-0")
		replacement(ctx, exit(ctx, job, "job-worker-1", 1, ""))
		Expect(pod(ctx, job, "job-worker-0").UID).To(Equal(survivor.UID))
		Expect(get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Tasks[0].Replicas[1].Attempt).To(Equal(int32(1)))
	})

	It("with scope Replica leaves a worker failed that its policy does not restart, and lets the leader decide", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("Never", "restartScope: Replica"))
		run(ctx, job, "job-worker-0", "job-worker-1")
		exit(ctx, job, "job-worker-1", 1, "")
		Eventually(ctx, func() bool {
			return meta.IsStatusConditionTrue(get(ctx, job).Status.Conditions, batchv1beta1.ConditionReplicaFailure)
		}).Should(BeTrue())
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseRunning))
		exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
	})

	DescribeTable("with restartPolicy ExitCode",
		func(ctx context.Context, code int, restarts bool) {
			job := start(ctx, 2, twoWorkers("ExitCode", ""))
			run(ctx, job, "job-worker-0", "job-worker-1")
			ended := exit(ctx, job, "job-worker-0", int32(code), "")
			if restarts {
				replacement(ctx, ended)
				return
			}
			Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
			Expect(condition(job, batchv1beta1.ConditionFailed).Reason).To(Equal(batchv1beta1.ReasonPermanentFailure))
		},
		Entry("restarts SIGINT", 130, true),
		Entry("restarts SIGKILL", 137, true),
		Entry("restarts the user's own SIGUSR1", 138, true),
		Entry("restarts SIGTERM", 143, true),
		Entry("takes a program's own error for permanent", 1, false),
		Entry("takes a segmentation fault for permanent", 139, false),
	)

	It("with restartPolicy Always restarts a worker that succeeded, but ends with the leader's success", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("Always", ""))
		run(ctx, job, "job-worker-0", "job-worker-1")
		replacement(ctx, exit(ctx, job, "job-worker-1", 0, ""))
		Expect(get(ctx, job).Status.BackoffCount).To(BeZero())
		exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
	})

	It("does not count a pod that was deleted", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("OnFailure", "backoffLimit: 0"))
		run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, func() string { return get(ctx, job).Status.Ready }).Should(Equal("2/2"))
		lost, peer := pod(ctx, job, "job-worker-1"), pod(ctx, job, "job-worker-0")
		Expect(k8s.Delete(ctx, lost, client.GracePeriodSeconds(0))).To(Succeed())
		replacement(ctx, lost)
		replacement(ctx, peer) // alone it would wait for its peer until a time-out
		Expect(get(ctx, job).Status.BackoffCount).To(BeZero())
		Expect(job.Status.Failures[0].Reason).To(Equal(batchv1beta1.ReasonDeleted))
		Expect(job.Status.Phase).NotTo(Equal(batchv1beta1.JobPhaseFailed))
	})
})

var _ = Describe("A job with a deadline", func() {
	It("fails when the time is up, with no event to wake the controller", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("OnFailure", "activeDeadlineSeconds: 1"))
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		Expect(condition(job, batchv1beta1.ConditionFailed).Reason).To(Equal(batchv1beta1.ReasonDeadlineExceeded))
		Expect(job.Status.CompletionTime.Sub(job.Status.StartTime.Time)).To(BeNumerically(">=", time.Second))
		Eventually(ctx, func() []string { return podNames(ctx, job) }).Should(BeEmpty())
		Eventually(ctx, func() *batchv1beta1.Aggregate { return get(ctx, job).Status.Aggregate }).Should(Equal(&batchv1beta1.Aggregate{Deleted: 2}))
	})
})

var _ = Describe("A job with ttlSecondsAfterFinished", func() {
	It("is deleted when the time is over, with no event to wake the controller", func(ctx context.Context) {
		job := start(ctx, 2, twoWorkers("Never", "ttlSecondsAfterFinished: 1"))
		exit(ctx, job, "job-worker-0", 1, "")
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(job), job))
		}).Should(BeTrue())
	})
})

var _ = DescribeTable("A finished job keeps the pods that cleanUpPolicy says",
	func(ctx context.Context, cleanUp string, want []string, wantAggregate batchv1beta1.Aggregate) {
		job := start(ctx, 2, twoWorkers("OnFailure", "cleanUpPolicy: "+cleanUp))
		run(ctx, job, "job-worker-0", "job-worker-1")
		exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		final := get(ctx, job).DeepCopy()
		Eventually(ctx, func() []string { return podNames(ctx, job) }).Should(ConsistOf(want))
		Eventually(ctx, func() *batchv1beta1.Aggregate { return get(ctx, job).Status.Aggregate }).Should(Equal(&wantAggregate))
		Expect(job.Status.Conditions).To(Equal(final.Status.Conditions), "the end is final")
		Expect(job.Status.CompletionTime).To(Equal(final.Status.CompletionTime))
	},
	Entry("All", "All", []string{}, batchv1beta1.Aggregate{Deleted: 2}),
	Entry("Unfinished", "Unfinished", []string{"job-worker-0"}, batchv1beta1.Aggregate{Succeeded: 1, Deleted: 1}),
	Entry("None", "None", []string{"job-worker-0", "job-worker-1"}, batchv1beta1.Aggregate{Succeeded: 1, Running: 1}),
)

func eventReasons(ctx context.Context, job *v1beta1.PyTorchTrainingJob) []string {
	var list eventsv1.EventList
	Expect(k8s.List(ctx, &list, client.InNamespace(job.Namespace))).To(Succeed())
	var reasons []string
	for _, e := range list.Items {
		if e.Regarding.Name == job.Name && strings.HasPrefix(e.ReportingController, "tensorstack") {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}
