package test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/kit/controlplane"
)

var _ = Describe("A TensorBoard with a queue", func() {
	It("has no pod until its PodGroup is admitted, and has no PodGroup while it is suspended",
		func(ctx context.Context) {
			tb := create(ctx, newNamespace(ctx), remote+"scheduler: {t9kScheduler: {queue: lab, priority: 20}}")
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Failed", "False NotInstalled", "Unknown NotRunning"))

			By("installing PodGroups")
			Expect(plane.InstallCRDs(controlplane.Scheduler)).To(Succeed())
			group := &schedulerv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: tb.Namespace, Name: "board-tb"}}
			read := func() error { return plane.Client.Get(ctx, client.ObjectKeyFromObject(group), group) }
			Eventually(ctx, read).Should(Succeed())
			Expect(group.Spec).To(Equal(schedulerv1beta1.PodGroupSpec{MinMember: 1, Queue: "lab", Priority: new(int32(20))}))
			Expect(metav1.IsControlledBy(group, tb)).To(BeTrue())
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Pending", "False Queued", "Unknown NotRunning"))

			admit := func(status metav1.ConditionStatus, reason string) {
				Expect(read()).To(Succeed())
				group.Status.Conditions = []metav1.Condition{{
					Type: schedulerv1beta1.ConditionAdmitted, Status: status, Reason: reason, LastTransitionTime: metav1.Now(),
				}}
				group.Status.PriorityClassName = "of-the-group"
				Expect(plane.Client.Status().Update(ctx, group)).To(Succeed())
			}
			admit(metav1.ConditionFalse, "QueueClosed")
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Pending", "False QueueClosed", "Unknown NotRunning"))
			By("admitting the PodGroup, after its PriorityClass was created")
			Expect(plane.Client.Create(ctx, &schedulingv1.PriorityClass{
				ObjectMeta: metav1.ObjectMeta{Name: "of-the-group"}, Value: 20,
			})).To(Succeed())
			admit(metav1.ConditionTrue, "Admitted")
			pod := podOf(ctx, tb)
			Expect(pod.Spec.SchedulerName).To(Equal("t9k-scheduler"))
			Expect(pod.Spec.PriorityClassName).To(Equal("of-the-group"))
			Expect(pod.Labels).To(And(
				HaveKeyWithValue("scheduler.tensorstack.dev/group-name", "board-tb"),
				HaveKeyWithValue("scheduler.tensorstack.dev/queue", "lab"),
			))

			patch(ctx, tb, `spec: {suspend: true}`)
			Expect(plane.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Or(Succeed(),
				MatchError(apierrors.IsNotFound, "IsNotFound")))
			Eventually(ctx, func() bool { return apierrors.IsNotFound(read()) }).Should(BeTrue())
			Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Suspended", "False Suspended", "Unknown NotRunning"))
		})
})
