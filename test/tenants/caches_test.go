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

var _ = Describe("The cache of", Label("caches"), func() {
	forEach("a controller does not hold what others label as its own:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createLabelled(ctx, s)
		c.worksAlsoAfterRestart(ctx, s, controller)
	})

	forEachJob("a controller that restarts has large jobs as they were:", func(ctx context.Context, s service) {
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

	It("a controller would hurt if it held what others label as its own", Label("pytorch"), func(ctx context.Context) {
		c := runController(ctx, pytorch.with("a cache keeps what tenants write"))
		c.works(ctx, pytorch, "before")
		c.createLabelled(ctx, pytorch)
		c.expectHarmed(ctx)
	})

	forEach("a controller has room for many large objects of its kind:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createLarge(ctx, s)
		c.worksAlsoAfterRestart(ctx, s, controller)
	})
})

// worksAlsoAfterRestart has a controller work for the victim, and again after a restart, when it lists all objects.
func (c *cluster) worksAlsoAfterRestart(ctx context.Context, s service, controller *controller) {
	GinkgoHelper()
	c.works(ctx, s, "during")
	c.expectUnharmed()
	c.restart(ctx, controller)
	c.works(ctx, s, "after")
	c.expectUnharmed()
}

// createLabelled creates 600 MB of the attacker's objects that have the labels of a controller.
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

// createLarge creates 300 objects of the attacker that give the controller nothing to do. Jobs have 1 MB each,
// and objects that have no template 250 KB.
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

// bulky returns metadata of about 200 KB, with the labels.
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

// metadataOf returns a list of the metadata of a kind of Kubernetes.
func metadataOf(kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	return list
}
