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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

	It("would exceed the memory limit if it kept all that tenants write", Label("pytorch", "control"),
		func(ctx context.Context) {
			c := runController(ctx, pytorch.with("the cache keeps everything that tenants write"))
			c.works(ctx, pytorch, "before")
			c.createLabelled(ctx, pytorch)
			c.expectHarmed(ctx)
		})

	table("is not filled by PodGroups that name owners of a large kind:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createOwned(ctx, s)
		c.worksAlsoAfterRestart(ctx, s, controller)
	}, pytorch, tensorflow, deepspeed, scheduler)

	It("would exceed the memory limit if it kept any owner of PodGroups", Label("pytorch", "control"),
		func(ctx context.Context) {
			c := runController(ctx, pytorch.with("the cache keeps any reference to an owner"))
			c.createOwned(ctx, pytorch)
			c.expectHarmed(ctx)
		})

	forEachJob("is not filled by pods with thousands of containers:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createCrowded(ctx, s)
		c.worksAlsoAfterRestart(ctx, s, controller)
	})

	It("would exceed the memory limit if it kept all containers of pods", Label("pytorch", "control"),
		func(ctx context.Context) {
			c := runController(ctx, pytorch.with("the cache keeps the statuses of all containers"))
			c.createCrowded(ctx, pytorch)
			c.expectHarmed(ctx)
		})

	It("would exceed the memory limit if it kept large TensorBoards", Label("tensorboard"), func(ctx context.Context) {
		c := start(ctx, tensorboard.module)
		controller := c.run(ctx, tensorboard.with("the cache keeps large objects"))
		c.createLarge(ctx, tensorboard, 400)
		c.restart(ctx, controller) // the controller lists all objects again
		c.expectHarmed(ctx)
	})

	forEach("has room for many large objects of the controller's kind:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		controller := c.run(ctx, s)
		c.works(ctx, s, "before")
		c.createLarge(ctx, s, 300)
		c.worksAlsoAfterRestart(ctx, s, controller)
	})
})

// worksAlsoAfterRestart checks that a controller works for the victim before and after a restart. After the restart,
// the controller lists all objects.
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

// createOwned creates 400 PodGroups of the attacker with the labels of a controller. The kind in the owner reference
// of each PodGroup is a text of 1.4 MB. For a job controller, createOwned also creates a job that needs a PodGroup,
// so that the controller caches PodGroups.
func (c *cluster) createOwned(ctx context.Context, s service) {
	GinkgoHelper()
	c.kubectl(ctx, "apply", "-k", "../../scheduler/config/users")
	Eventually(ctx, func() error {
		return create(ctx, c.attacker, attacker, scheduler.group("first", "of-nobody"))
	}).Should(Succeed())
	if s.module != scheduler.module {
		job := s.job("queued", 1, plain())
		queue := []string{"spec", "scheduler", "t9kScheduler", "queue"}
		Expect(unstructured.SetNestedField(job.Object, "of-nobody", queue...)).To(Succeed())
		Expect(create(ctx, c.attacker, attacker, job)).To(Succeed())
	}
	c.inParallel(400, func(i int) error {
		group := scheduler.group(name(i), "of-nobody")
		group.SetLabels(s.labels)
		group.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: strings.Repeat("K", 1_400_000), Name: "owner", UID: "owner-uid", Controller: new(true),
		}})
		return create(ctx, c.attacker, attacker, group)
	})
}

// createCrowded creates a job of the attacker that another controller manages, and 300 pods of this job with 5,000
// containers each. As a kubelet does, it reports the status of each container.
func (c *cluster) createCrowded(ctx context.Context, s service) {
	GinkgoHelper()
	job := s.job("of-another", 1, plain())
	Expect(unstructured.SetNestedField(job.Object, "example.org/controller", "spec", "managedBy")).To(Succeed())
	Expect(create(ctx, c.attacker, attacker, job)).To(Succeed())
	var containers []corev1.Container
	var statuses []corev1.ContainerStatus
	for i := range 5000 {
		container := fmt.Sprintf("c%d", i)
		containers = append(containers, corev1.Container{Name: container, Image: "i"})
		statuses = append(statuses, corev1.ContainerStatus{Name: container, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"},
		}})
	}
	c.inParallel(300, func(i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name(i), Labels: s.labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, s.kind)},
			},
			Spec: corev1.PodSpec{Containers: containers},
		}
		pod.OwnerReferences[0].BlockOwnerDeletion = nil // the role edit does not permit it
		if err := create(ctx, c.attacker, attacker, pod); err != nil {
			return err
		}
		return c.report(ctx, pod, func(pod *corev1.Pod) { pod.Status.ContainerStatuses = statuses })
	})
}

// createLarge creates objects of the attacker that need no work of the controller. Jobs have 1 MB each, TensorBoards
// have 1.5 MB, and other objects have 250 KB.
func (c *cluster) createLarge(ctx context.Context, s service, n int) {
	GinkgoHelper()
	template := largest()
	template.Spec.Containers[0].Env = template.Spec.Containers[0].Env[:48]
	c.inParallel(n, func(i int) error {
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
