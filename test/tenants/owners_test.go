package tenants

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

var _ = Describe("A pod whose owner has a path for a name", Label("time"), func() {
	forEachJob("is released, and no request leaves the path of its kind:", func(ctx context.Context, s service) {
		c := runController(ctx, s)
		c.createOutside(ctx, s)
		Eventually(ctx, c.held(ctx)).Should(BeEmpty())
		Expect(c.LogTail(c.controllers[0].name)).NotTo(ContainSubstring(outside))
		c.works(ctx, s, "after")
		c.expectUnharmed()
	})

	It("would never be released if the controller used the name", Label("pytorch"), func(ctx context.Context) {
		c := runController(ctx, pytorch.with("the cache keeps any reference to an owner"))
		c.createOutside(ctx, pytorch)
		Eventually(ctx, func() string { return c.LogTail(c.controllers[0].name) }).Should(ContainSubstring(outside))
		Expect(c.held(ctx)()).NotTo(BeEmpty())
	})
})

// outside is the name of an owner. In the path of a URL, it leads to another path of the API server.
const outside = "../../../../../../openapi/v2"

// createOutside creates pods of the attacker with the finalizer of leaders. The name of their owner is the value of
// the constant outside. Every second pod has the label that names a job.
func (c *cluster) createOutside(ctx context.Context, s service) {
	GinkgoHelper()
	c.inParallel(20, func(i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name(i), Labels: map[string]string{batchv1beta1.LabelJobKind: s.kind.Kind},
				Finalizers: []string{batchv1beta1.FinalizerLeader},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: s.kind.GroupVersion().String(), Kind: s.kind.Kind, Name: outside, UID: "owner-uid",
					Controller: new(true),
				}},
			},
			Spec: plain().Spec,
		}
		if i%2 == 0 {
			pod.Labels[batchv1beta1.LabelJobName] = "of-nobody"
		}
		return create(ctx, c.attacker, attacker, pod)
	})
}

// held returns a function that lists the pods of the attacker that have the finalizer of leaders.
func (c *cluster) held(ctx context.Context) func() ([]corev1.Pod, error) {
	return func() ([]corev1.Pod, error) {
		var pods corev1.PodList
		err := c.Client.List(ctx, &pods, client.InNamespace(attacker))
		released := func(pod corev1.Pod) bool { return len(pod.Finalizers) == 0 }
		return slices.DeleteFunc(pods.Items, released), c.unless(err)
	}
}
