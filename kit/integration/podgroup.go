package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/model"
)

// InQueue is a patch that adds a job to the queue lab.
const InQueue = `spec: {scheduler: {t9kScheduler: {queue: lab, priority: 70}}}`

// SchedulerSpecs defines the specs of jobs with spec.scheduler.t9kScheduler. The tests act as the
// scheduler-controller. The first spec requires that the PodGroup CRD is not installed, so the Ginkgo container must
// be Ordered.
func (c *Cluster[J]) SchedulerSpecs() {
	It("reports that the PodGroup CRD is not installed, and creates pods once it is installed",
		func(ctx context.Context) {
			job := c.Create(ctx, c.NewNamespace(ctx), InQueue)
			Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonNotInstalled))
			initialized := Condition(job, batchv1beta1.ConditionInitialized)
			Expect(initialized.Status).To(Equal(metav1.ConditionFalse))
			Expect(initialized.Message).To(ContainSubstring("podgroups.scheduler.tensorstack.dev is not installed"))
			Expect(c.PodNames(ctx, job)).To(BeEmpty())

			other := c.Start(ctx, c.replicas(job))
			c.runAll(ctx, other)
			Eventually(ctx, c.Phase(ctx, other)).Should(Equal(batchv1beta1.JobPhaseRunning), "a job without a queue")

			Expect(c.InstallCRDs(controlplane.Scheduler)).To(Succeed())
			c.Admit(ctx, job)
			c.runAll(ctx, job)
			Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
			Expect(Condition(job, batchv1beta1.ConditionInitialized).Status).To(Equal(metav1.ConditionTrue))
			Expect(count(c.EventReasons(ctx, job), batchv1beta1.ReasonNotInstalled)).To(Equal(1), "the number of events")
		})

	It("creates its PodGroup before its pods and deletes it when it ends, which takes two writes",
		func(ctx context.Context) {
			job := c.Create(ctx, c.NewNamespace(ctx), InQueue)
			group := c.PodGroup(ctx, job)
			least := int32(c.replicas(job)) //nolint:gosec // at most ten
			Expect(group.Spec).To(Equal(schedulerv1beta1.PodGroupSpec{
				MinMember: least, Queue: "lab", Priority: new(int32(70)),
				Roles: []schedulerv1beta1.PodGroupRole{{Name: "worker", MinMember: least}},
			}))
			Expect(metav1.IsControlledBy(group, job)).To(BeTrue(), "the job owns the PodGroup")
			Expect(group.Labels).To(HaveKeyWithValue(batchv1beta1.LabelJobName, "job"))
			Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonQueued))
			Expect(
				Condition(job, batchv1beta1.ConditionRunning).Message,
			).To(ContainSubstring("waits for the scheduler-controller"))
			Expect(c.PodNames(ctx, job)).To(BeEmpty())

			c.Admit(ctx, job)
			Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(c.replicas(job)))
			pod := c.Pod(ctx, job, "job-worker-0")
			Expect(pod.Labels).To(And(HaveKeyWithValue(schedulerv1beta1.LabelGroupName, "job"),
				HaveKeyWithValue(schedulerv1beta1.LabelQueue, "lab"), HaveKeyWithValue(schedulerv1beta1.LabelRole, "worker")))
			Expect(pod.Spec.SchedulerName).To(Equal(schedulerv1beta1.SchedulerName))
			Expect(pod.Spec.Priority).To(HaveValue(Equal(int32(70))))
			Expect(pod.Annotations).To(And(
				HaveKeyWithValue("scheduling.k8s.io/group-name", "job"), HaveKeyWithValue("volcano.sh/task-spec", "worker")))

			c.finish(ctx, job)
			c.expectNoPodGroup(ctx, job)
			Expect(c.Writes.In(job.GetNamespace(), "/podgroups")).To(HaveLen(2))
			Expect(len(c.Writes.In(job.GetNamespace(), "/status"))).To(BeNumerically("<=", 6),
				"one status write more than without a queue, for the reason Queued")
			Expect(c.EventReasons(ctx, job)).To(ConsistOf("Created", "Running", "Completed"))
		})

	It("reports why its queue does not admit it, and creates pods once it is admitted", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), InQueue)
		c.report(ctx, job, metav1.Condition{
			Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: schedulerv1beta1.ReasonQueueClosed,
			Message: "Queue lab is closed",
		})
		Eventually(ctx, c.reason(ctx, job)).Should(Equal(schedulerv1beta1.ReasonQueueClosed))
		running := Condition(job, batchv1beta1.ConditionRunning)
		Expect(running.Status).To(Equal(metav1.ConditionFalse))
		Expect(running.Reason).To(Equal(schedulerv1beta1.ReasonQueueClosed))
		Expect(running.Message).To(HaveSuffix("Queue lab is closed"))
		Eventually(ctx,
			func() []string { return c.EventReasons(ctx, job) }).Should(ConsistOf(schedulerv1beta1.ReasonQueueClosed))
		Expect(c.PodNames(ctx, job)).To(BeEmpty())

		c.Admit(ctx, job)
		Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(c.replicas(job)))
		c.report(ctx, job, metav1.Condition{
			Type: schedulerv1beta1.ConditionGroupScheduled, Status: metav1.ConditionFalse,
			Reason:  schedulerv1beta1.ReasonUnschedulable,
			Message: "0 pods are on nodes",
		})
		Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonUnschedulable))
		Expect(Condition(job, batchv1beta1.ConditionRunning).Message).To(HaveSuffix("0 pods are on nodes"))
	})

	It("deletes its PodGroup when it is paused, and creates a new one when it is resumed", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), InQueue)
		first := c.Admit(ctx, job)
		c.runAll(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		c.Edit(ctx, job, Paused)
		c.expectNoPodGroup(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))

		c.Edit(ctx, job, `spec: {runMode: {pause: {enabled: false}}}`)
		Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonQueued))
		Expect(c.PodNames(ctx, job)).To(BeEmpty(), "pods before the new PodGroup is admitted")
		Expect(c.Admit(ctx, job).UID).NotTo(Equal(first.UID))
		Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(c.replicas(job)))
	})

	It("deletes its PodGroup when it fails, and never creates another one", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), InQueue, `spec: {runPolicy: {activeDeadlineSeconds: 2}}`)
		c.PodGroup(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed),
			"the time in the queue counts towards the deadline")
		c.expectNoPodGroup(ctx, job)
		c.Edit(ctx, job, `spec: {runPolicy: {ttlSecondsAfterFinished: 1000}}`)
		Eventually(ctx,
			func() bool { return c.Get(ctx, job).JobStatus().ObservedGeneration == job.GetGeneration() }).Should(BeTrue())
		c.expectNoPodGroup(ctx, job)
	})

	It("fails when it exceeds the maximum duration of its queue", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), InQueue)
		c.Admit(ctx, job)
		c.runAll(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		c.report(ctx, job, metav1.Condition{
			Type: schedulerv1beta1.ConditionMaxDurationExceeded, Status: metav1.ConditionTrue,
			Reason: schedulerv1beta1.ReasonMaxDurationExceeded, Message: "the group was on nodes for too long",
		})
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		failed := Condition(c.Get(ctx, job), batchv1beta1.ConditionFailed)
		Expect(failed.Reason).To(Equal(batchv1beta1.ReasonMaxDurationExceeded))
		Expect(failed.Message).To(Equal("the group was on nodes for too long"))
		c.expectNoPodGroup(ctx, job)
		Eventually(ctx, c.Pods(ctx, job)).Should(BeEmpty())
	})

	It("does not make a replacement wait for a peer that has succeeded", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), InQueue, `spec: {runPolicy: {restartScope: Replica}}`)
		c.Admit(ctx, job)
		c.runAll(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		c.Exit(ctx, job, "job-worker-1", 0, "")
		Eventually(ctx, func() int32 { return c.Aggregate(ctx, job)().Succeeded }).Should(Equal(int32(1)))
		left := int32(c.replicas(job)) - 1 //nolint:gosec // at most ten
		Expect(c.PodGroup(ctx, job).Spec.MinMember).To(Equal(left+1), "minMember while no replica waits for a node")

		leader := c.Pod(ctx, job, "job-worker-0")
		Expect(c.Client.Delete(ctx, leader)).To(Succeed())
		Eventually(ctx, func() int32 { return c.PodGroup(ctx, job).Spec.MinMember }).Should(Equal(left))
		Expect(c.PodGroup(ctx, job).Spec.Roles).To(ConsistOf(schedulerv1beta1.PodGroupRole{Name: "worker", MinMember: left}))
		Expect(c.PodNames(ctx, job)).NotTo(ContainElement("job-worker-0"),
			"pods before the changed PodGroup is admitted")
		c.Admit(ctx, job)
		c.Replacement(ctx, leader)
	})

	It("does not change a PodGroup that it does not own", func(ctx context.Context) {
		namespace := c.NewNamespace(ctx)
		mine := &schedulerv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"},
			Spec:       schedulerv1beta1.PodGroupSpec{MinMember: 1, Queue: "lab"},
		}
		Expect(c.Client.Create(ctx, mine)).To(Succeed())
		job := c.Create(ctx, namespace, InQueue)
		c.Admit(ctx, job)
		Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonNameConflict))
		Eventually(ctx,
			func() []string { return c.EventReasons(ctx, job) }).Should(ConsistOf(batchv1beta1.ReasonNameConflict))
		Expect(c.PodNames(ctx, job)).To(BeEmpty())
		untouched := c.PodGroup(ctx, job)
		Expect(untouched.UID).To(Equal(mine.UID))
		Expect(untouched.Generation).To(Equal(mine.Generation))

		Expect(c.Client.Delete(ctx, mine)).To(Succeed())
		Eventually(ctx, func() bool { return metav1.IsControlledBy(c.PodGroup(ctx, job), job) }).Should(BeTrue())
		c.Admit(ctx, job)
		Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(c.replicas(job)))
	})

	It("keeps running while the PodGroup CRD is uninstalled, and recreates its PodGroup afterwards",
		func(ctx context.Context) {
			job := c.Create(ctx, c.NewNamespace(ctx), InQueue)
			first := c.Admit(ctx, job)
			c.runAll(ctx, job)
			Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
			Expect(c.UninstallCRDs(ctx, controlplane.Scheduler)).To(Succeed())
			Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonNotInstalled))
			Expect(job.JobStatus().Phase).To(Equal(batchv1beta1.JobPhaseRunning))

			Expect(c.InstallCRDs(controlplane.Scheduler)).To(Succeed())
			Expect(c.PodGroup(ctx, job).UID).NotTo(Equal(first.UID))
			Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonReplicasRunning))
			c.finish(ctx, job)
			c.expectNoPodGroup(ctx, job)
		})
}

// reason returns a function for Eventually that reads a job and returns the reason in its status.
func (c *Cluster[J]) reason(ctx context.Context, job J) func() string {
	return func() string { return c.Get(ctx, job).JobStatus().Reason }
}

// replicas returns the number of replicas in the spec of a job.
func (c *Cluster[J]) replicas(job J) int {
	return model.CountReplicas(c.Controller.Framework.JobSpec(job))
}

// PodGroup waits for the PodGroup with the name of the job, and returns it.
func (c *Cluster[J]) PodGroup(ctx context.Context, job J) *schedulerv1beta1.PodGroup {
	GinkgoHelper()
	found := &schedulerv1beta1.PodGroup{}
	Eventually(ctx, func() error { return c.Client.Get(ctx, client.ObjectKeyFromObject(job), found) }).Should(Succeed())
	return found
}

// expectNoPodGroup expects that the PodGroup of the job is gone within 5 s.
func (c *Cluster[J]) expectNoPodGroup(ctx context.Context, job J) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		return c.Client.Get(ctx, client.ObjectKeyFromObject(job), &schedulerv1beta1.PodGroup{})
	}, "5s").Should(Satisfy(apierrors.IsNotFound))
}

// report writes a condition for the current generation of the job's PodGroup, as the scheduler-controller does, and
// returns the PodGroup.
func (c *Cluster[J]) report(ctx context.Context, job J, condition metav1.Condition) *schedulerv1beta1.PodGroup {
	GinkgoHelper()
	group := c.PodGroup(ctx, job)
	base := group.DeepCopy()
	group.Status.ObservedGeneration = group.Generation
	group.Status.PriorityClassName = model.PriorityClassName
	meta.SetStatusCondition(&group.Status.Conditions, condition)
	Expect(c.Client.Status().Patch(ctx, group, client.MergeFrom(base))).To(Succeed())
	return group
}

// Admit admits the job's PodGroup, as the scheduler-controller does, and returns the PodGroup.
func (c *Cluster[J]) Admit(ctx context.Context, job J) *schedulerv1beta1.PodGroup {
	GinkgoHelper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: model.PriorityClassName}, Value: 70}
	Expect(c.Client.Create(ctx, class)).To(Or(Succeed(), Satisfy(apierrors.IsAlreadyExists)))
	return c.report(ctx, job, metav1.Condition{
		Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: schedulerv1beta1.ReasonAdmitted,
	})
}
