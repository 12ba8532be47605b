package tenants

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/test/simulated"
)

// If an admission policy of the scheduler-controller prevents an attack, another spec repeats the attack without the
// policy.
var _ = Describe("On kube-scheduler, one tenant", Label("queues"), func() {
	It("cannot use up a quota with devices that the node of its pod does not have", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		Expect(c.claimDevices(ctx)).To(MatchError(ContainSubstring("spec.nodeName")))
		c.isPlaced(ctx, "shared")
	})

	It("could use up a quota with devices that a node does not have, without the policies", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.withoutPolicies(ctx, func() {
			Eventually(ctx, func() error { return c.claimDevices(ctx) }).Should(Succeed())
		})
		Expect(create(ctx, c.victim, victim, withDevices(podOf("devices", "1"), "1"))).To(Succeed())
		Expect(create(ctx, c.victim, victim, scheduler.group("devices", "devices"))).To(Succeed())
		Eventually(ctx, c.reason(ctx, victim, "devices", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("cannot use a quota again after it deleted the group of a pod", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.abandon(ctx)
		Eventually(ctx, c.reason(ctx, attacker, "second", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("could use a quota again if the pod did not count before it is on a node", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native,
			scheduler.with("a released pod without a group counts only on a node"))
		c.abandon(ctx)
		Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "second") }).Should(HaveLen(1))
	})

	It("cannot schedule a pod with the PriorityClass of another queue", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.createUrgentClass(ctx)
		pod, err := c.createUngated(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Spec.SchedulingGates).NotTo(BeEmpty())

		By("creating the pod on a Kubernetes that does not complete it")
		c.leaveIncomplete(ctx)
		_, err = c.createUngated(ctx)
		Expect(err).To(MatchError(ContainSubstring("spec.schedulingGates:")))
	})

	It("could schedule a pod with the PriorityClass of another queue, without the policies", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.createUrgentClass(ctx)
		c.unbind(ctx, "classes")
		c.unbind(ctx, "members")
		c.leaveIncomplete(ctx)
		var pod *corev1.Pod
		Eventually(ctx, func() (err error) {
			pod, err = c.createUngated(ctx)
			return err
		}).Should(Succeed())
		Expect(pod.Spec.Priority).To(HaveValue(BeEquivalentTo(2030)))
		Eventually(ctx, func() (string, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return pod.Spec.NodeName, err
		}).ShouldNot(BeEmpty())
	})

	It("cannot give the PriorityClass of another queue to the engine's group", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.createUrgentClass(ctx)
		Expect(c.forgeGroup(ctx)).To(MatchError(ContainSubstring("spec.priorityClassName:")))

		By("creating the group without the policy")
		c.unbind(ctx, "engine-groups")
		Eventually(ctx, func() error { return c.forgeGroup(ctx) }).Should(Succeed())
		Eventually(ctx, c.reason(ctx, attacker, "forged", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
	})

	It("could give the PriorityClass of another queue to the engine's group if no class was checked", func(
		ctx context.Context,
	) {
		c := startQueues(ctx, simulated.Native, scheduler.with("the group of the engine can have any class"))
		c.createUrgentClass(ctx)
		c.unbind(ctx, "engine-groups")
		Eventually(ctx, func() error { return c.forgeGroup(ctx) }).Should(Succeed())
		Eventually(ctx, func() (string, error) {
			pod := podOf("forged", "1")
			err := create(ctx, client.NewDryRunClient(c.attacker), attacker, pod)
			return pod.Spec.PriorityClassName, err
		}).Should(Equal(urgentClass))
	})
})

var _ = Describe("On kube-scheduler, the ResourceClaim of one tenant", Label("queues"), func() {
	It("counts against the quota for devices", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.createDevices(ctx)
		c.claim(ctx, c.attacker, attacker, 8)
		Eventually(ctx, c.reason(ctx, attacker, "claims", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
		c.claim(ctx, c.victim, victim, 2)
		Eventually(ctx, c.bound(ctx, "claims")).Should(HaveLen(1))
		c.expectUnharmed()
	})

	It("would exceed the quota for devices if it did not count", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler.with("the devices of claims do not count"))
		c.createDevices(ctx)
		c.claim(ctx, c.attacker, attacker, 8)
		Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "claims") }).Should(HaveLen(1))
	})
})

var _ = Describe("On Volcano, the pod of one tenant", Label("queues", "volcano"), func() {
	It("cannot leave its group to free the quota that it uses", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		Expect(c.leaveGroup(ctx)).To(MatchError(ContainSubstring("metadata.annotations:")))
		c.createSecond(ctx)
		Eventually(ctx, c.reason(ctx, attacker, "second", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("could leave its group, and the quota would be used twice, without the policy", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		c.unbind(ctx, "members")
		Eventually(ctx, func() error { return c.leaveGroup(ctx) }).Should(Succeed())
		c.createSecond(ctx)
		Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "second") }).Should(HaveLen(1))
		Expect(must(c.Bound(ctx, attacker, "first"))).To(HaveLen(1))
	})

	It("cannot use a quota again after it left its job and its group", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		c.outlive(ctx)
		Eventually(ctx, c.reason(ctx, attacker, "second", schedulerv1beta1.ConditionGroupScheduled)).
			Should(BeElementOf(schedulerv1beta1.ReasonUnschedulable, schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("could use a quota again if Volcano did not know about pods without a group", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler.with("pods without a group use no quota in Volcano"))
		c.outlive(ctx)
		Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "second") }).Should(HaveLen(1))
	})

	It("cannot use a queue that does not select its namespace, as Volcano's users do", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		Expect(c.useDirectly(ctx)).To(MatchError(ContainSubstring("belongs to a Queue")))
		annotated := podOf("", "2")
		annotated.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": "lab"}
		Expect(create(ctx, c.attacker, attacker, annotated)).To(MatchError(ContainSubstring("belongs to a Queue")))
		c.isPlaced(ctx, "lab")
	})

	It("could use a queue that does not select its namespace, without the policy", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		c.unbind(ctx, "volcano-queues")
		Eventually(ctx, func() error { return c.useDirectly(ctx) }).Should(Succeed())
		pod := podOf("", "2")
		pod.Name = "direct"
		pod.Annotations = map[string]string{gang.AnnotationGroup: "direct"}
		pod.Spec.SchedulerName = schedulerv1beta1.SchedulerName
		Expect(create(ctx, c.attacker, attacker, pod)).To(Succeed())
		Eventually(ctx, func() (string, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return pod.Spec.NodeName, err
		}).ShouldNot(BeEmpty())
		c.createGroup(ctx, "lab")
		Consistently(ctx, c.bound(ctx, "lab")).WithTimeout(10 * time.Second).Should(BeEmpty())
	})

	It("cannot refuse to give way to a queue with a higher priority", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		Expect(c.stay(ctx, "false")).To(MatchError(ContainSubstring("volcano.sh/preemptable")))
		Expect(c.stay(ctx, "true")).To(Succeed())
		Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "stays") }).Should(HaveLen(1))
		c.isPlaced(ctx, "urgent")
	})

	It("could refuse to give way to a queue with a higher priority, without the policy", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		c.unbind(ctx, "members")
		Eventually(ctx, func() error { return c.stay(ctx, "false") }).Should(Succeed())
		Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "stays") }).Should(HaveLen(1))
		c.createGroup(ctx, "urgent")
		Eventually(ctx, c.reason(ctx, victim, "urgent", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonUnschedulable))
		Consistently(ctx, c.bound(ctx, "urgent")).WithTimeout(10 * time.Second).Should(BeEmpty())
	})
})

// withDevices makes a pod request devices that no node has.
func withDevices(pod *corev1.Pod, n string) *corev1.Pod {
	devices := corev1.ResourceList{"example.org/device": resource.MustParse(n)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: devices, Limits: devices}
	return pod
}

// claimDevices creates a pod of the attacker in the queue "devices". The pod requests the whole quota of the queue, and
// names a node.
func (c *cluster) claimDevices(ctx context.Context) error {
	err := c.Client.Create(ctx, queueOf("devices", map[string]any{
		"namespaceSelector": map[string]any{}, "quota": map[string]any{"requests": map[string]any{"example.org/device": "8"}},
	}))
	if client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	err = create(ctx, c.attacker, attacker, scheduler.group("phantom", "devices"))
	if client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return c.createOnNode(ctx, withDevices(byItself(podOf("phantom", "1")), "8"))
}

// abandon creates a pod of the attacker that uses the quota of the queue "shared" and has an additional scheduling
// gate. When the queue has released the pod, abandon deletes the group of the pod. Then it creates another group with
// a pod that requests as much and has no additional gate.
func (c *cluster) abandon(ctx context.Context) {
	GinkgoHelper()
	c.admit(ctx, c.attacker, attacker, "first", "shared")
	pod := podOf("first", "2")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.org/own"}}
	Expect(create(ctx, c.attacker, attacker, pod)).To(Succeed())
	Eventually(ctx, func() (map[string]string, error) {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Annotations, c.unless(err)
	}).Should(HaveKey(schedulerv1beta1.AnnotationReleased))
	Expect(c.attacker.Delete(ctx, scheduler.groupIn(attacker, "first"))).To(Succeed())
	c.admit(ctx, c.attacker, attacker, "second", "shared")
	Expect(create(ctx, c.attacker, attacker, podOf("second", "2"))).To(Succeed())
}

// createUrgentClass makes the controller create the PriorityClass of the queue "urgent".
func (c *cluster) createUrgentClass(ctx context.Context) {
	GinkgoHelper()
	group := scheduler.group("urgent", "urgent")
	Expect(unstructured.SetNestedField(group.Object, int64(10), "spec", "priority")).To(Succeed())
	Expect(create(ctx, c.victim, victim, group)).To(Succeed())
	Eventually(ctx, c.reason(ctx, victim, "urgent", schedulerv1beta1.ConditionAdmitted)).
		Should(Equal(schedulerv1beta1.ReasonAdmitted))
	Eventually(ctx, func() error {
		pod := podOf("probe", "1")
		pod.Spec.PriorityClassName = urgentClass
		return create(ctx, client.NewDryRunClient(c.attacker), attacker, pod)
	}).Should(Succeed()) // the API server takes a moment to see the class
}

// createUngated creates a pod of the attacker without the scheduling gate of queues. The pod has the PriorityClass of
// another queue, and names a group that does not exist.
func (c *cluster) createUngated(ctx context.Context) (*corev1.Pod, error) {
	pod := byItself(podOf("ghost", "1"))
	pod.Name, pod.GenerateName = "", "ghost-"
	pod.Spec.PriorityClassName = urgentClass
	return pod, create(ctx, c.attacker, attacker, pod)
}

// forgeGroup creates a PodGroup of kube-scheduler with the PriorityClass of another queue. Then it creates a PodGroup
// of the scheduler-controller, and makes it the owner of the first PodGroup, as if the controller had created the
// first one.
func (c *cluster) forgeGroup(ctx context.Context) error {
	forged := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "forged"},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1},
			},
			PriorityClassName: urgentClass,
		},
	}
	if err := create(ctx, c.attacker, attacker, forged); err != nil {
		return err
	}
	group := scheduler.group("forged", "shared")
	if err := create(ctx, c.attacker, attacker, group); err != nil {
		return err
	}
	before := forged.DeepCopy()
	forged.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(group, scheduler.kind)}
	forged.OwnerReferences[0].BlockOwnerDeletion = nil // the role edit does not permit it
	return c.attacker.Patch(ctx, forged, client.MergeFrom(before))
}

// createDevices creates a DeviceClass, 16 of its devices on the node, and the queue "claims" with a quota of 2 of
// them.
func (c *cluster) createDevices(ctx context.Context) {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(c.Client.List(ctx, &nodes)).To(Succeed())
	node := nodes.Items[0].Name
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "devices"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceClass, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for i := range 16 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
	}
	Expect(c.Client.Create(ctx, slice)).To(Succeed())
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: deviceClass}}
	Expect(c.Client.Create(ctx, class)).To(Succeed())
	c.createQueue(ctx, "claims", map[string]any{
		"namespaceSelector": map[string]any{},
		"quota":             map[string]any{"requests": map[string]any{deviceClass + corev1.ResourceClaimsPerClass: "2"}},
	})
}

// deviceClass is the name of a DeviceClass and of its driver.
const deviceClass = "gpu.example.org"

// claim creates a group of a tenant in the queue "claims", and a pod with a claim for devices.
func (c *cluster) claim(ctx context.Context, as client.Client, namespace string, devices int64) {
	GinkgoHelper()
	template := &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "claims"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: deviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: devices,
			}}},
		}}},
	}
	Expect(create(ctx, as, namespace, template)).To(Succeed())
	pod := podOf("claims", "1")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: new("claims")}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
	Expect(create(ctx, as, namespace, pod)).To(Succeed())
	Expect(create(ctx, as, namespace, scheduler.group("claims", "claims"))).To(Succeed())
}

// leaveGroup runs a pod of the attacker that uses the whole quota of the queue "shared". Then it removes the pod from
// its group in Volcano.
func (c *cluster) leaveGroup(ctx context.Context) error {
	pod := podOf("first", "2")
	pod.Namespace = attacker
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	if apierrors.IsNotFound(err) {
		c.admit(ctx, c.attacker, attacker, "first", "shared")
		err = create(ctx, c.attacker, attacker, pod)
	}
	if err != nil {
		return err
	}
	Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "first") }).Should(HaveLen(1))
	return c.attacker.Patch(ctx, pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"scheduling.k8s.io/group-name":"none"}}}`)))
}

// useDirectly gives the attacker the permission to create PodGroups of Volcano, which all users of Volcano have. Then
// the attacker creates a PodGroup of Volcano in the victim's queue.
func (c *cluster) useDirectly(ctx context.Context) error {
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "volcano"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: role.Name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{volcanov1beta1.GroupName}, Resources: []string{"podgroups"}, Verbs: []string{"create"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: role.Name}, RoleRef: role,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: attacker}},
		},
	} {
		if err := c.Client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	group := &volcanov1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "direct"}, Spec: volcanov1beta1.PodGroupSpec{MinMember: 1, Queue: "lab"},
	}
	err := create(ctx, c.attacker, attacker, group)
	for apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource") && ctx.Err() == nil {
		err = create(ctx, c.attacker, attacker, group) // the API server takes a moment to see the role
	}
	return err
}

// outlive runs a pod in the queue "shared". Like the pods of jobs, the pod has no gate. Then outlive deletes the
// group of the pod, and creates another group with a pod of the same size.
func (c *cluster) outlive(ctx context.Context) {
	GinkgoHelper()
	c.admit(ctx, c.attacker, attacker, "first", "shared")
	pod := byItself(podOf("first", "2"))
	pod.Labels[schedulerv1beta1.LabelQueue] = "shared"
	Expect(create(ctx, c.Client, attacker, pod)).To(Succeed())
	Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "first") }).Should(HaveLen(1))
	Expect(c.attacker.Delete(ctx, scheduler.groupIn(attacker, "first"))).To(Succeed())
	c.createSecond(ctx)
}

// createSecond creates another group of the attacker in the queue "shared", with a pod. Like the pods of jobs, the
// pod has no gate, because Volcano enforces the quota. The administrator creates the pod in place of a job
// controller.
func (c *cluster) createSecond(ctx context.Context) {
	GinkgoHelper()
	c.admit(ctx, c.attacker, attacker, "second", "shared")
	Expect(create(ctx, c.Client, attacker, byItself(podOf("second", "2")))).To(Succeed())
}

// stay creates a pod of the attacker in the queue "open". The pod needs the whole node, and its annotation tells
// Volcano whether it can be evicted.
func (c *cluster) stay(ctx context.Context, preemptable string) error {
	err := create(ctx, c.attacker, attacker, scheduler.group("stays", "open"))
	if client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	pod := podOf("stays", "16")
	pod.Annotations = map[string]string{"volcano.sh/preemptable": preemptable}
	return create(ctx, c.attacker, attacker, pod)
}
