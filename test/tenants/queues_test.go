package tenants

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/test/simulated"
)

var _ = Describe("On kube-scheduler, pods of one tenant", Label("queues"), func() {
	It("do not use the quota of a queue that does not select their namespace", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.crowd(ctx)
		c.isPlaced(ctx, "lab")
	})

	It("would use the quota of a queue that does not select their namespace if they counted", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native,
			scheduler.with("pods of namespaces that a queue does not select count against its quota"))
		c.crowd(ctx)
		c.createGroup(ctx, "lab")
		Eventually(ctx, c.reason(ctx, victim, "lab", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("do not use the quota of their queue before they are released", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		Expect(c.hoard(ctx)).To(MatchError(ContainSubstring("only the scheduler-controller")))
		c.isPlaced(ctx, "shared")
	})

	It("would use the quota of their queue if their owner could annotate them as released", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.withoutPolicies(ctx, func() { Eventually(ctx, c.hoard).Should(Succeed()) })
		c.createGroup(ctx, "shared")
		Eventually(ctx, c.reason(ctx, victim, "shared", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("cannot be released by their owner or moved to another queue", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		for _, name := range []string{"first", "second"} {
			c.admit(ctx, c.attacker, attacker, name, "shared")
			Expect(create(ctx, c.attacker, attacker, podOf(name, "2"))).To(Succeed())
		}
		bound := func(name string) func() ([]string, error) {
			return func() ([]string, error) { return c.Bound(ctx, attacker, name) }
		}
		reason := func(name string) func() (string, error) {
			return c.reason(ctx, attacker, name, schedulerv1beta1.ConditionGroupScheduled)
		}
		Eventually(ctx, func() []string {
			return []string{must(reason("first")()), must(reason("second")())}
		}).Should(ConsistOf(schedulerv1beta1.ReasonScheduled, schedulerv1beta1.ReasonQuotaExceeded))
		runs, waits := "first", "second"
		if must(reason("first")()) == schedulerv1beta1.ReasonQuotaExceeded {
			runs, waits = waits, runs
		}
		patch := func(name, patch string) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: name}}
			return c.attacker.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(patch)))
		}
		Expect(patch(waits, `{"spec":{"schedulingGates":null}}`)).
			To(MatchError(ContainSubstring("spec.schedulingGates:")))
		Expect(patch(runs, `{"metadata":{"labels":null}}`)).To(MatchError(ContainSubstring("metadata.labels:")))

		By("moving the group to another queue")
		Expect(c.attacker.Delete(ctx, scheduler.groupIn(attacker, runs))).To(Succeed())
		Eventually(ctx, func() error {
			return create(ctx, c.attacker, attacker, scheduler.group(runs, "low"))
		}).Should(Succeed())
		Eventually(ctx, c.reason(ctx, attacker, runs, schedulerv1beta1.ConditionAdmitted)).ShouldNot(BeEmpty())
		c.admit(ctx, c.victim, victim, "shared", "shared")
		Expect(create(ctx, c.victim, victim, podOf("shared", "2"))).To(Succeed())
		Eventually(ctx, c.reason(ctx, victim, "shared", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
		Expect(must(bound(waits)())).To(BeEmpty())

		By("deleting the pods that run")
		Expect(c.attacker.Delete(ctx, scheduler.groupIn(attacker, waits))).To(Succeed())
		Expect(c.attacker.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(attacker))).To(Succeed())
		Eventually(ctx, c.bound(ctx, "shared")).Should(HaveLen(1))
	})

	It("do not block a queue if kube-scheduler does not report their group", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.keepSilent(ctx)
		c.isPlaced(ctx, "open")
	})

	It("would block a queue if a group that is not reported blocked all namespaces", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native,
			scheduler.with("a group that kube-scheduler does not report blocks all namespaces"))
		c.keepSilent(ctx)
		c.createGroup(ctx, "open")
		Eventually(ctx, c.reason(ctx, victim, "open", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
	})

	It("are released before the statuses of the groups of others are written", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		Expect(c.releasedAfter(ctx, scheduler)).To(BeNumerically("<", foreignGroups))
	})

	It("would be released after the statuses of the groups of others if these came first", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler.with("the statuses of foreign groups come first"))
		Expect(c.releasedAfter(ctx, scheduler)).To(Equal(foreignGroups))
	})

	It("cannot use the PriorityClass of another queue", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.claimPriority(ctx)
		Eventually(ctx, c.reason(ctx, attacker, "urgent", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))

		By("creating a pod of the default scheduler with the PriorityClass")
		pod := podOf("", "1")
		pod.Spec.PriorityClassName = urgentClass
		Expect(create(ctx, c.attacker, attacker, pod)).To(MatchError(ContainSubstring("spec.priorityClassName:")))
	})

	It("could use the PriorityClass of another queue if their group took it from them", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler.with("a group has the priority of the class that its pods name"))
		c.claimPriority(ctx)
		Eventually(ctx, func() (string, error) {
			var group schedulingv1beta1.PodGroup
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: attacker, Name: "urgent"}, &group)
			return group.Spec.PriorityClassName, client.IgnoreNotFound(err)
		}).Should(Equal(urgentClass))
	})
})

var _ = Describe("On Volcano, one tenant", Label("queues", "volcano"), func() {
	It("does not break a queue with the resources that its pods request", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		c.requestMuch(ctx)
		c.isPlaced(ctx, "open")
	})

	It("would break a queue if the queue listed the resources that pods request", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler.with("a Volcano queue lists the resources that pods request"))
		c.requestMuch(ctx)
		c.createGroup(ctx, "open")
		Eventually(ctx, c.reason(ctx, victim, "open", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
	})

	It("does not block the extender with slow requests", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		Expect(c.askBesideSlow(ctx)).To(BeZero(), "slow requests that the extender ended before it answered")
	})

	It("would block the extender with slow requests if it read one request at a time", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler.with("questions are read one at a time"))
		Expect(c.askBesideSlow(ctx)).NotTo(BeZero(), "slow requests that the extender ended before it answered")
	})
})

// foreignGroups is the number of groups of the attacker that name a queue of the victim.
const foreignGroups = 3000

// releasedAfter creates groups of the attacker that name the queue of the victim, and a pod of the victim in that
// queue. Then it restarts the controller. It returns how many of these groups get a status from the controller before
// the controller releases the pod.
func (c *cluster) releasedAfter(ctx context.Context, s service) int {
	GinkgoHelper()
	c.admit(ctx, c.victim, victim, "lab", "lab")
	Expect(c.Freeze(c.controllers[0].name)).To(Succeed())
	c.inParallel(foreignGroups, func(i int) error {
		return create(ctx, c.attacker, attacker, s.group(name(i), "lab"))
	})
	Expect(create(ctx, c.victim, victim, podOf("lab", "2"))).To(Succeed())
	Expect(c.Thaw(c.controllers[0].name)).To(Succeed())
	c.restart(ctx, c.controllers[0])
	pod := podOf("lab", "2")
	pod.Namespace = victim
	Eventually(ctx, func() (map[string]string, error) {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Annotations, c.unless(err)
	}).WithTimeout(5 * bound).Should(HaveKey(schedulerv1beta1.AnnotationReleased))
	written, released := 0, versionOf(pod)
	groups := &unstructured.UnstructuredList{}
	groups.SetGroupVersionKind(s.kind)
	Expect(c.Client.List(ctx, groups, client.InNamespace(attacker))).To(Succeed())
	for i := range groups.Items {
		group := &groups.Items[i]
		if reasonOf(group, schedulerv1beta1.ConditionAdmitted) != "" && versionOf(group) < released {
			written++
		}
	}
	AddReportEntry("groups with a status", written, ReportEntryVisibilityAlways)
	return written
}

// versionOf returns the resource version of an object as a number. Each later write of any object results in a larger
// version.
func versionOf(object client.Object) int {
	GinkgoHelper()
	return must(strconv.Atoi(object.GetResourceVersion()))
}

// urgentClass is the PriorityClass of groups of the queue "urgent".
const urgentClass = "t9k-native-2030"

// startQueues starts a control plane with an engine, the scheduler-controller, a node of 16 CPUs and Queues:
//   - "lab" selects the victim's namespace and has a quota of 2 CPUs.
//   - "shared" and "low" select all namespaces and have a quota of 2 CPUs.
//   - "open" selects all namespaces and has no quota.
//   - "urgent" is like "lab" and has a higher priority.
//
// It returns when the admission policies for pods are in force.
func startQueues(ctx context.Context, kind simulated.Kind, s service) *cluster {
	GinkgoHelper()
	if kind == simulated.Volcano {
		buildPrograms(ctx, simulated.None, simulated.Native, simulated.Volcano)
	}
	c := startOn(ctx, kind, s.module)
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("the end of the log of "+c.Engine, c.LogTail(c.Engine))
		}
	})
	c.run(ctx, s)
	_, err := c.AddNodes(ctx, "16")
	Expect(err).NotTo(HaveOccurred())
	ofVictim := map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: victim}}
	quota := map[string]any{"requests": map[string]any{"cpu": "2"}}
	for name, spec := range map[string]map[string]any{
		"lab":    {"namespaceSelector": ofVictim, "quota": quota},
		"shared": {"namespaceSelector": map[string]any{}, "quota": quota},
		"low":    {"namespaceSelector": map[string]any{}, "quota": quota},
		"open":   {"namespaceSelector": map[string]any{}},
		"urgent": {"namespaceSelector": ofVictim, "quota": quota, "priority": int64(20)},
	} {
		c.createQueue(ctx, name, spec)
	}
	c.awaitPolicies(ctx)
	return c
}

// podOf returns a pod that requests CPUs. It has the name of its group. Without a group, its name is generated.
func podOf(group, cpus string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: plain().Spec}
	if group != "" {
		labels := map[string]string{schedulerv1beta1.LabelGroupName: group}
		pod.ObjectMeta = metav1.ObjectMeta{Name: group, Labels: labels}
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	return pod
}

// byItself sets the fields of a pod that the admission policies would set, except the scheduling gate.
func byItself(pod *corev1.Pod) *corev1.Pod {
	group := pod.Labels[schedulerv1beta1.LabelGroupName]
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "scheduling.k8s.io/group-name", group)
	pod.Spec.SchedulerName = schedulerv1beta1.SchedulerName
	return pod
}

// groupIn returns a PodGroup with only a namespace and a name, for a delete.
func (s service) groupIn(namespace, name string) *unstructured.Unstructured {
	group := s.new(name, nil)
	group.SetNamespace(namespace)
	return group
}

// createGroup creates a group of the victim with a pod of 2 CPUs. The group has the name of its queue. createGroup
// creates the pod first, because a pod that is created just when its group is admitted can lack the PriorityClass of
// the group.
func (c *cluster) createGroup(ctx context.Context, queue string) {
	GinkgoHelper()
	Expect(create(ctx, c.victim, victim, podOf(queue, "2"))).To(Succeed())
	Expect(create(ctx, c.victim, victim, scheduler.group(queue, queue))).To(Succeed())
}

// isPlaced creates a group and a pod of the victim in a queue, and expects the pod to be bound to a node.
func (c *cluster) isPlaced(ctx context.Context, queue string) {
	GinkgoHelper()
	c.admit(ctx, c.victim, victim, queue, queue)
	Expect(create(ctx, c.victim, victim, podOf(queue, "2"))).To(Succeed())
	Eventually(ctx, c.bound(ctx, queue)).Should(HaveLen(1))
	c.expectUnharmed()
}

// admit creates a group of a tenant in a queue. It returns when new pods of the group get the PriorityClass of the
// group.
func (c *cluster) admit(ctx context.Context, as client.Client, namespace, name, queue string) {
	GinkgoHelper()
	Expect(create(ctx, as, namespace, scheduler.group(name, queue))).To(Succeed())
	Eventually(ctx, c.reason(ctx, namespace, name, schedulerv1beta1.ConditionAdmitted)).
		Should(Equal(schedulerv1beta1.ReasonAdmitted))
	Eventually(ctx, func() (string, error) {
		pod := podOf(name, "1")
		err := create(ctx, client.NewDryRunClient(as), namespace, pod)
		return pod.Spec.PriorityClassName, c.unless(err)
	}).ShouldNot(BeEmpty())
}

// bound returns a function that lists the pods of a group of the victim that are bound to nodes.
func (c *cluster) bound(ctx context.Context, group string) func() ([]string, error) {
	return func() ([]string, error) {
		bound, err := c.Bound(ctx, victim, group)
		return bound, c.unless(err)
	}
}

// reason returns a function that reads the reason of a condition of a group. The reason is empty if the group does
// not have the condition.
func (c *cluster) reason(ctx context.Context, namespace, name, condition string) func() (string, error) {
	return func() (string, error) {
		group := scheduler.new(name, nil)
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, group)
		return reasonOf(group, condition), c.unless(err)
	}
}

func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// withoutPolicies calls the function do while three policies are missing: the one for members of groups, the one for
// PriorityClasses, and the one that adds the scheduling gate to pods of tenants. Kubernetes before 1.36 does not
// support the last one. Afterwards, withoutPolicies installs the policies again.
func (c *cluster) withoutPolicies(ctx context.Context, do func()) {
	GinkgoHelper()
	c.unbind(ctx, "members")
	c.unbind(ctx, "classes")
	c.leaveIncomplete(ctx)
	do()
	c.apply(ctx, scheduler.module)
	c.awaitPolicies(ctx)
}

// unbind removes the binding of a ValidatingAdmissionPolicy of the scheduler-controller.
func (c *cluster) unbind(ctx context.Context, policy string) {
	GinkgoHelper()
	c.kubectl(ctx, "delete", "validatingadmissionpolicybinding", "tensorstack-scheduler-"+policy)
}

// leaveIncomplete removes the policy that adds the scheduling gate, the scheduler and the group to pods of tenants.
func (c *cluster) leaveIncomplete(ctx context.Context) {
	GinkgoHelper()
	c.kubectl(ctx, "delete", "mutatingadmissionpolicybinding", "tensorstack-scheduler-pods")
	Eventually(ctx, func() (int, error) {
		gates, err := c.gatesOf(ctx, byItself(podOf("probe", "1")))
		if apierrors.IsForbidden(err) {
			err = nil // another policy rejects pods without the gate
		}
		return gates, err
	}).Should(BeZero())
}

// awaitPolicies waits until the admission policies for pods are in force.
func (c *cluster) awaitPolicies(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() (int, error) { return c.gatesOf(ctx, podOf("probe", "1")) }).Should(Equal(1))
	Eventually(ctx, func() error {
		pod := podOf("probe", "1")
		pod.Annotations = map[string]string{schedulerv1beta1.AnnotationReleased: "true"}
		return create(ctx, client.NewDryRunClient(c.attacker), attacker, pod)
	}).ShouldNot(Succeed())
}

// gatesOf creates a pod of the attacker in a dry run, and returns the number of scheduling gates that it would have.
func (c *cluster) gatesOf(ctx context.Context, pod *corev1.Pod) (int, error) {
	err := create(ctx, client.NewDryRunClient(c.attacker), attacker, pod)
	return len(pod.Spec.SchedulingGates), err
}

// crowd runs pods whose group names the victim's queue. The administrator creates these pods, because the policies
// would gate pods that the attacker creates.
func (c *cluster) crowd(ctx context.Context) {
	GinkgoHelper()
	Expect(create(ctx, c.attacker, attacker, scheduler.group("crowd", "lab"))).To(Succeed())
	for i := range 3 {
		pod := byItself(podOf("crowd", "1"))
		pod.Name = fmt.Sprintf("crowd-%d", i)
		Expect(create(ctx, c.Client, attacker, pod)).To(Succeed())
	}
	Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "crowd") }).Should(HaveLen(3))
}

// hoard creates a pod of the attacker that fits no node. An annotation of the pod claims that its queue has released
// the pod.
func (c *cluster) hoard(ctx context.Context) error {
	err := create(ctx, c.attacker, attacker, scheduler.group("hoard", "shared"))
	if client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	pod := byItself(podOf("hoard", "2"))
	pod.Annotations[schedulerv1beta1.AnnotationReleased] = "true"
	pod.Spec.NodeSelector = map[string]string{"on": "no-node"}
	return create(ctx, c.attacker, attacker, pod)
}

// keepSilent runs a pod of the attacker that names its node, without the policies that reject such a pod. The pod is
// in a PodGroup of kube-scheduler, but kube-scheduler does not schedule the pod. This blocks the attacker's PodGroup
// "silent". keepSilent returns when that PodGroup has the reason EngineNotReady.
func (c *cluster) keepSilent(ctx context.Context) {
	GinkgoHelper()
	Expect(create(ctx, c.attacker, attacker, scheduler.group("silent", "open"))).To(Succeed())
	Eventually(ctx, c.reason(ctx, attacker, "silent", schedulerv1beta1.ConditionAdmitted)).
		Should(Equal(schedulerv1beta1.ReasonAdmitted))
	pod := byItself(podOf("silent", "1"))
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("silent")}
	c.withoutPolicies(ctx, func() {
		Eventually(ctx, func() error { return c.createOnNode(ctx, pod) }).Should(Succeed())
	})
	Eventually(ctx, c.reason(ctx, attacker, "silent", schedulerv1beta1.ConditionAdmitted)).
		Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
}

// createOnNode creates a pod of the attacker that names its node. As a kubelet does, it reports the pod as scheduled
// and running.
func (c *cluster) createOnNode(ctx context.Context, pod *corev1.Pod) error {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(c.Client.List(ctx, &nodes)).To(Succeed())
	pod.Spec.NodeName = nodes.Items[0].Name
	if err := create(ctx, c.attacker, attacker, pod); err != nil {
		return err
	}
	Eventually(ctx, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		kubelet.Run(pod, "", time.Now())
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
		return c.Client.Status().Update(ctx, pod)
	}).Should(Succeed())
	return nil
}

// claimPriority creates a pod of the attacker with the PriorityClass of another queue, and then the group of this
// pod.
func (c *cluster) claimPriority(ctx context.Context) {
	GinkgoHelper()
	c.createUrgentClass(ctx)
	Eventually(ctx, func() error {
		pod := podOf("urgent", "1")
		pod.Spec.PriorityClassName = urgentClass
		return create(ctx, c.attacker, attacker, pod)
	}).Should(Succeed())
	Expect(create(ctx, c.attacker, attacker, scheduler.group("urgent", "shared"))).To(Succeed())
}

// requestMuch creates pods of the attacker in the queue "open". Together, the pods request 6,000 resources with
// different names.
func (c *cluster) requestMuch(ctx context.Context) {
	GinkgoHelper()
	Expect(create(ctx, c.attacker, attacker, scheduler.group("much", "open"))).To(Succeed())
	prefix := strings.Repeat(strings.Repeat("p", 49)+".", 4) + "com/"
	c.inParallel(100, func(i int) error {
		pod := podOf("much", "1")
		pod.Name = name(i)
		requests := corev1.ResourceList{}
		for n := range 60 {
			requests[corev1.ResourceName(fmt.Sprintf("%s%d-%d", prefix, i, n))] = resource.MustParse("1")
		}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
		return create(ctx, c.attacker, attacker, pod)
	})
}

// askBesideSlow sends complete requests to the extender while slow requests stay incomplete. It returns the number of
// slow requests that the extender ended before it answered the last complete request. If the extender does not answer
// a complete request, askBesideSlow adds 1 to the number.
func (c *cluster) askBesideSlow(ctx context.Context) int32 {
	GinkgoHelper()
	var given atomic.Int32
	for range 4 {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.ExtenderAddress)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		_, err = fmt.Fprintf(conn, "POST /reclaimable HTTP/1.1\r\nHost: extender\r\nContent-Length: 1000\r\n\r\n{")
		Expect(err).NotTo(HaveOccurred())
		go func() {
			_, _ = conn.Read(make([]byte, 1))
			given.Add(1)
		}()
	}
	// The extender can answer the first request before it reads the slow requests, so the loop sends several requests.
	for range 3 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.ExtenderAddress+"/reclaimable",
			strings.NewReader(`{"evictor":{},"evictees":[]}`))
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		if err != nil { // the extender was blocked
			return given.Load() + 1
		}
		Expect(response.Body.Close()).To(Succeed())
		Expect(response.StatusCode).To(Equal(http.StatusOK))
	}
	return given.Load()
}
