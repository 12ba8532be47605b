package test

import (
	"context"
	"strings"
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
	It("is not admitted until its queue exists, selects its namespace and is open", func(ctx context.Context) {
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
		Eventually(ctx, reason).Should(Equal("EngineNotReady"), "this API server does not serve the groups of kube-scheduler")
		Eventually(ctx, func() (int32, error) {
			err := plane.Client.Get(ctx, client.ObjectKeyFromObject(queue), queue)
			return queue.Status.PodGroups.Total, err
		}).Should(Equal(int32(1)))

		By("removing the label from the namespace")
		labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Expect(plane.Client.Patch(ctx, labelled,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"team": null}}}`)))).To(Succeed())
		Eventually(ctx, reason).Should(Equal("NamespaceNotSelected"))

		writes := len(plane.Writes.In(namespace, "podgroups"))
		Consistently(ctx, func() int { return len(plane.Writes.In(namespace, "podgroups")) },
			time.Second).Should(Equal(writes))
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

var _ = Describe("The pods of a queue", func() {
	It("are deleted when they are older than maxDuration", func(ctx context.Context) {
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

var _ = Describe("The API server", func() {
	DescribeTable("rejects an invalid spec with a message that names the field:",
		func(ctx context.Context, kind, spec, field, message string) {
			namespace := "default"
			if kind == "Queue" {
				namespace = ""
			}
			Expect(apply(ctx, kind, namespace, "bad", spec, client.DryRunAll)).To(MatchError(And(ContainSubstring(field),
				ContainSubstring(message))))
		},
		Entry("priority of a PodGroup is above 100", "PodGroup", `{priority: 101}`, "spec.priority",
			"less than or equal to 100"),
		Entry("minMember is negative", "PodGroup", `{minMember: -1}`, "spec.minMember", "greater than or equal to 0"),
		Entry("two roles have the same name", "PodGroup", `{roles: [{name: a, minMember: 1}, {name: a, minMember: 1}]}`,
			"spec.roles[1]", "Duplicate value"),
		Entry("priority of a Queue is negative", "Queue", `{priority: -1}`, "spec.priority", "greater than or equal to 0"),
		Entry("maxDuration has no unit", "Queue", `{maxDuration: "15"}`, "spec.maxDuration",
			"must be a duration greater than 0, such as 15d"),
		Entry("maxDuration is zero", "Queue", `{maxDuration: 0s}`, "spec.maxDuration", "greater than 0"),
		Entry("the units of maxDuration are in the wrong order", "Queue", `{maxDuration: 5s1h}`, "spec.maxDuration",
			"in this order"),
	)

	It("rejects a new Queue whose name is too long for a label", func(ctx context.Context) {
		name := strings.Repeat("q", 63)
		Expect(apply(ctx, "Queue", "", name, `{}`, client.DryRunAll)).To(Succeed())
		Expect(apply(ctx, "Queue", "", name+"q", `{}`, client.DryRunAll)).
			To(MatchError(ContainSubstring("metadata.name must have at most 63 characters")))
	})
})
