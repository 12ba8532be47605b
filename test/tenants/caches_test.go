package tenants

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("The cache of a controller", Label("caches"), func() {
	forEach("is not filled by objects that tenants label as the controller's:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createLabelled(ctx, s)
		c.worksAlsoAfterRestart(ctx, s, controller)
	})

	forEachJob("is rebuilt correctly after a restart with a large job:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		template := largest()
		template.Spec.Containers[0].Env = template.Spec.Containers[0].Env[:16]
		Expect(create(ctx, c.victim, victim, s.job("large", 2, template))).To(Succeed())
		c.jobHasPods(ctx, s, "large")
		c.restart(ctx, controller)
		c.works(ctx, s, "after")
		c.jobSucceeds(ctx, s, "large")
		c.expectUnharmed()
	})

	It("would exceed the memory limit if it kept all that tenants write", Label("pytorch"), func(ctx context.Context) {
		c := runController(ctx, pytorch.with("the cache keeps everything that tenants write"))
		c.works(ctx, pytorch, "before")
		c.createLabelled(ctx, pytorch)
		c.expectHarmed(ctx)
	})

	forEach("has room for many large objects of the controller's kind:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createLarge(ctx, s)
		c.worksAlsoAfterRestart(ctx, s, controller)
	})
})

// worksAlsoAfterRestart checks that a controller works for the victim before and after a restart. After the restart, it
// lists all objects.
func (c *cluster) worksAlsoAfterRestart(ctx context.Context, s service, controller *controller) {
	GinkgoHelper()
	c.works(ctx, s, "during")
	c.expectUnharmed()
	c.restart(ctx, controller)
	c.works(ctx, s, "after")
	c.expectUnharmed()
}

// createLabelled creates 600 MB of pods and Services of the attacker with the labels of a controller.
func (c *cluster) createLabelled(ctx context.Context, s service) {
	GinkgoHelper()
	c.inParallel(2000, func(i int) error {
		return create(ctx, c.attacker, attacker, &corev1.Pod{ObjectMeta: bulky(i, s.labels), Spec: plain().Spec})
	})
	c.inParallel(1000, func(i int) error {
		return create(ctx, c.attacker, attacker, &corev1.Service{
			ObjectMeta: bulky(i, s.labels), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
		})
	})
}

// createLarge creates 300 objects of the attacker that need no work of the controller. Jobs have 1 MB each, and objects
// without a template have 250 KB.
func (c *cluster) createLarge(ctx context.Context, s service) {
	GinkgoHelper()
	template := largest()
	template.Spec.Containers[0].Env = template.Spec.Containers[0].Env[:48]
	c.inParallel(300, func(i int) error {
		object := s.object(s, name(i), template)
		object.SetAnnotations(map[string]string{"large": strings.Repeat("x", 250_000)})
		return create(ctx, c.attacker, attacker, object)
	})
}

func name(i int) string { return fmt.Sprintf("bulky-%d", i) }

// bulky returns metadata of about 200 KB that includes the labels.
func bulky(i int, labels map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: name(i), Labels: map[string]string{},
		Annotations: map[string]string{"large": strings.Repeat("x", 60_000)},
	}
	prefix := strings.Repeat(strings.Repeat("p", 49)+".", 5)
	for n := range 360 {
		meta.Labels[fmt.Sprintf("%scom/%060d", prefix, n)] = strings.Repeat("v", 63)
	}
	maps.Copy(meta.Labels, labels)
	return meta
}

// metadataOf returns an empty list for the metadata of a kind in the core API group.
func metadataOf(kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	return list
}
