package scheduling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

var _ = Describe("A PodGroup whose pods were created by hand", func() {
	DescribeTable("is all or nothing, and gives its priority to the pods", onBoth(func(ctx context.Context, c cluster) {
		c.admitHandMade(ctx)
		_, err := c.AddNodes(ctx, "1", "1", "1")
		Expect(err).NotTo(HaveOccurred())
		group := c.group(ctx, members{name: "gang", min: 4, priority: 70})
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionAdmitted)).Should(Equal(v1beta1.ReasonAdmitted))
		for i := range 4 {
			pod := handMade("gang", i)
			Expect(c.Client.Create(ctx, pod)).To(Succeed())
			Expect(pod.Spec.PriorityClassName).To(Equal(group.Status.PriorityClassName))
			Expect(*pod.Spec.Priority).To(Equal(int32(70)))
		}
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonUnschedulable))
		Expect(c.Retry(ctx, 2, corev1.NamespaceDefault, "gang")).To(Succeed())
		Expect(c.bound(ctx, "gang")()).To(BeEmpty())
		_, err = c.AddNodes(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(4))
	})...)

	DescribeTable("waits for the quota of its queue even if the pods were created before it",
		onBoth(func(ctx context.Context, c cluster) {
			c.admitHandMade(ctx)
			_, err := c.AddNodes(ctx, "8")
			Expect(err).NotTo(HaveOccurred())
			queue := c.queue(ctx, "small", v1beta1.QueueSpec{
				Quota: &v1beta1.QueueQuota{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			})
			for i := range 2 {
				Expect(c.Client.Create(ctx, handMade("gang", i))).To(Succeed())
			}
			group := c.group(ctx, members{name: "gang", queue: "small", min: 2})
			Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonQuotaExceeded))
			Expect(c.bound(ctx, "gang")()).To(BeEmpty())
			change(ctx, c, queue, func(q *v1beta1.Queue) { q.Spec.Quota.Requests[corev1.ResourceCPU] = resource.MustParse("2") })
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(2))

			By("replacing a pod, as the controller of a workload does")
			Expect(c.Client.Delete(ctx, handMade("gang", 0))).To(Succeed())
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(1))
			Expect(c.Client.Create(ctx, handMade("gang", 0))).To(Succeed())
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(2))
		})...)
})

// handMade returns pod i of a group, as a user writes it.
func handMade(group string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", group, i),
			Labels: map[string]string{v1beta1.LabelGroupName: group},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
}

// admitHandMade installs the admission policies for pods that are created by hand. It returns when they are in force.
func (c cluster) admitHandMade(ctx context.Context) {
	GinkgoHelper()
	for _, folder := range []string{"base", string(c.Kind) + "/controller"} {
		manifest, err := os.ReadFile("../../deploy/scheduler/" + folder + "/pods.yaml")
		Expect(err).NotTo(HaveOccurred())
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
		for {
			var object unstructured.Unstructured
			if err := documents.Decode(&object); errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred())
			Expect(c.Client.Create(ctx, &object)).To(Succeed())
		}
	}
	Eventually(ctx, func() (string, error) {
		pod := handMade("probe", 0)
		err := c.Client.Create(ctx, pod, client.DryRunAll)
		return pod.Spec.SchedulerName, err
	}).Should(Equal(simulated.SchedulerName))
}
