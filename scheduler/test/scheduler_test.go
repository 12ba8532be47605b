package test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/kit/suite"
)

var _ = Describe("A PodGroup", func() {
	It("waits for its queue, which must be open and take its namespace, and says so", func(ctx context.Context) {
		namespace := newNamespace(ctx, "one")
		Expect(apply(ctx, "PodGroup", namespace, "group", `{queue: one}`)).To(Succeed())
		reason := admitted(ctx, namespace, "group")
		Eventually(ctx, reason).Should(Equal("QueueNotFound"))

		Expect(apply(ctx, "Queue", "", "one", `{closed: true}`)).To(Succeed())
		queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		Eventually(ctx, reason).Should(Equal("NamespaceNotSelected"))
		change := func(patch string) {
			Expect(plane.Client.Patch(ctx, queue, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
		}
		change(`{"spec": {"namespaceSelector": {"matchLabels": {"team": "one"}}}}`)
		Eventually(ctx, reason).Should(Equal("QueueClosed"))
		change(`{"spec": {"closed": false}}`)
		Eventually(ctx, reason).Should(Equal("EngineNotReady"), "kube-scheduler's groups are off here")
		Expect(plane.Client.Get(ctx, client.ObjectKeyFromObject(queue), queue)).To(Succeed())
		Expect(queue.Status.PodGroups.Total).To(Equal(int32(1)))

		By("taking the label off the namespace")
		labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Expect(plane.Client.Patch(ctx, labelled,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"team": null}}}`)))).To(Succeed())
		Eventually(ctx, reason).Should(Equal("NamespaceNotSelected"))

		writes := len(plane.Writes.In(namespace, "podgroups"))
		Consistently(
			ctx,
			func() int { return len(plane.Writes.In(namespace, "podgroups")) },
			time.Second,
		).Should(Equal(writes))
	})
})

var _ = Describe("A typed client", func() {
	It("updates a PodGroup", func(ctx context.Context) {
		namespace := newNamespace(ctx, "typed")
		Expect(apply(ctx, "PodGroup", namespace, "group", `{roles: [{name: worker, minMember: 2}]}`)).To(Succeed())
		group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"}}
		suite.ExpectTypedUpdate(ctx, plane.Client, group, func(group *v1beta1.PodGroup) { group.Spec.MinMember = 3 })
	})

	It("updates a Queue", func(ctx context.Context) {
		Expect(apply(ctx, "Queue", "", "typed", `{namespaceSelector: {}, quota: {requests: {cpu: "1"}}}`)).To(Succeed())
		queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "typed"}}
		suite.ExpectTypedUpdate(ctx, plane.Client, queue, func(queue *v1beta1.Queue) { queue.Spec.Closed = true })
	})
})

var _ = Describe("Pods of a queue", func() {
	It("are deleted when they are older than it allows", func(ctx context.Context) {
		namespace := newNamespace(ctx, "short")
		Expect(apply(ctx, "Queue", "", "short", `{namespaceSelector: {}, maxDuration: 1s500ms}`)).To(Succeed())
		Expect(apply(ctx, "PodGroup", namespace, "group", `{queue: short}`)).To(Succeed())
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "pod", Labels: map[string]string{v1beta1.LabelGroupName: "group"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example"}}},
		}
		Expect(plane.Client.Create(ctx, pod)).To(Succeed())
		Eventually(ctx, func() bool {
			err := plane.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return client.IgnoreNotFound(err) == nil && (err != nil || !pod.DeletionTimestamp.IsZero())
		}).Should(BeTrue())
	})
})

var _ = Describe("Bad input", func() {
	DescribeTable("is refused at apply, with a message that names the field",
		func(ctx context.Context, kind, spec, field, message string) {
			namespace := "default"
			if kind == "Queue" {
				namespace = ""
			}
			Expect(apply(ctx, kind, namespace, "bad", spec, client.DryRunAll)).To(MatchError(And(ContainSubstring(field),
				ContainSubstring(message))))
		},
		Entry("a priority out of range", "PodGroup", `{priority: 101}`, "spec.priority", "less than or equal to 100"),
		Entry("a negative minMember", "PodGroup", `{minMember: -1}`, "spec.minMember", "greater than or equal to 0"),
		Entry("a role twice", "PodGroup", `{roles: [{name: a, minMember: 1}, {name: a, minMember: 1}]}`, "spec.roles[1]",
			"Duplicate value"),
		Entry("a queue's priority out of range", "Queue", `{priority: -1}`, "spec.priority", "greater than or equal to 0"),
		Entry("a length without a unit", "Queue", `{maxDuration: "15"}`, "spec.maxDuration",
			"must be a length of time such as 15d"),
		Entry("a length of nothing", "Queue", `{maxDuration: 0s}`, "spec.maxDuration", "greater than 0"),
		Entry("units in another order", "Queue", `{maxDuration: 5s1h}`, "spec.maxDuration", "in this order"),
	)
})
