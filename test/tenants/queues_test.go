package tenants

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/test/simulated"
)

var _ = Describe("On kube-scheduler, pods of one tenant", Label("queues"), func() {
	It("do not use up a queue that does not take them", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.crowd(ctx)
		c.isPlaced(ctx, "lab")
	})

	It("would use up a queue that does not take them if they counted", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native,
			scheduler.with("pods of namespaces that a queue does not select count against its quota"))
		c.crowd(ctx)
		c.createGroup(ctx, "lab")
		Eventually(ctx, c.reason(ctx, victim, "lab", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("do not use up a queue that takes them before it lets them through", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		Expect(c.hoard(ctx)).To(MatchError(ContainSubstring("only the scheduler-controller")))
		c.isPlaced(ctx, "shared")
	})

	It("would use up a queue that takes them if they could be marked", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		Expect(c.Client.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "tensorstack-scheduler-members"},
		})).To(Succeed())
		Eventually(ctx, c.hoard).Should(Succeed())
		c.createGroup(ctx, "shared")
		Eventually(ctx, c.reason(ctx, victim, "shared", schedulerv1beta1.ConditionGroupScheduled)).
			Should(Equal(schedulerv1beta1.ReasonQuotaExceeded))
	})

	It("are not let through by their owner, and stay in their queue", func(ctx context.Context) {
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

		By("ending what runs")
		Expect(c.attacker.Delete(ctx, scheduler.groupIn(attacker, waits))).To(Succeed())
		Expect(c.attacker.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(attacker))).To(Succeed())
		Eventually(ctx, c.bound(ctx, "shared")).Should(HaveLen(1))
	})

	It("do not hold up a queue by what kube-scheduler does not report of them", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.keepSilent(ctx)
		Eventually(ctx, c.reason(ctx, attacker, "silent", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
		c.isPlaced(ctx, "open")
	})

	It("would hold up a queue if what is not reported of them held up all", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native,
			scheduler.with("a group that kube-scheduler does not report holds up all"))
		c.keepSilent(ctx)
		c.createGroup(ctx, "open")
		Eventually(ctx, c.reason(ctx, victim, "open", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
	})

	It("do not have the priority of another queue", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler)
		c.claimPriority(ctx)
		Eventually(ctx, c.reason(ctx, attacker, "urgent", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))

		By("naming the priority for a pod of the default scheduler")
		pod := podOf("", "1")
		pod.Spec.PriorityClassName = urgentClass
		Expect(create(ctx, c.attacker, attacker, pod)).To(MatchError(ContainSubstring("spec.priorityClassName:")))
	})

	It("would have the priority of another queue if their group took it", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Native, scheduler.with("a group has the priority that its pods name"))
		c.claimPriority(ctx)
		Eventually(ctx, func() (string, error) {
			var group schedulingv1beta1.PodGroup
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: attacker, Name: "urgent"}, &group)
			return group.Spec.PriorityClassName, client.IgnoreNotFound(err)
		}).Should(Equal(urgentClass))
	})
})

var _ = Describe("On Volcano, one tenant", Label("queues"), func() {
	It("does not spoil a queue by what its pods request", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		c.requestMuch(ctx)
		c.isPlaced(ctx, "open")
	})

	It("would spoil a queue if the queue named what its pods request", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler.with("a queue names what pods request"))
		c.requestMuch(ctx)
		c.createGroup(ctx, "open")
		Eventually(ctx, c.reason(ctx, victim, "open", schedulerv1beta1.ConditionAdmitted)).
			Should(Equal(schedulerv1beta1.ReasonEngineNotReady))
	})

	It("does not hold up the extender by asking slowly", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler)
		Expect(c.askBesideSlow(ctx)).To(BeZero(), "slow questions that ended before the answer")
	})

	It("would hold up the extender by asking slowly if it read one question at a time", func(ctx context.Context) {
		c := startQueues(ctx, simulated.Volcano, scheduler.with("questions are read one by one"))
		Expect(c.askBesideSlow(ctx)).NotTo(BeZero(), "slow questions that ended before the answer")
	})
})

// urgentClass is the PriorityClass of groups of the queue "urgent".
const urgentClass = "t9k-native-2030"

// startQueues starts a control plane with an engine, the scheduler-controller, a node of 16 CPUs and queues. "lab" has
// the victim's groups, "shared" and "low" those of both tenants; each has a quota of 2 CPUs. "open" has those of both,
// and no quota. "urgent" is like "lab", and goes before the others. The policies for pods are in force.
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
	Eventually(ctx, func() (gates int, err error) {
		pod := podOf("probe", "1")
		err = create(ctx, client.NewDryRunClient(c.attacker), attacker, pod)
		return len(pod.Spec.SchedulingGates), err
	}).Should(Equal(1))
	Eventually(ctx, func() error {
		pod := podOf("probe", "1")
		pod.Annotations = map[string]string{schedulerv1beta1.AnnotationReleased: "true"}
		return create(ctx, client.NewDryRunClient(c.attacker), attacker, pod)
	}).ShouldNot(Succeed())
	return c
}

// podOf returns a pod of a group, of the same name, that requests CPUs.
func podOf(group, cpus string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: plain().Spec}
	if group != "" {
		labels := map[string]string{schedulerv1beta1.LabelGroupName: group}
		pod.ObjectMeta = metav1.ObjectMeta{Name: group, Labels: labels}
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	return pod
}

// byItself makes a pod say all that the policies would add, but for the gate.
func byItself(pod *corev1.Pod) *corev1.Pod {
	group := pod.Labels[schedulerv1beta1.LabelGroupName]
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "scheduling.k8s.io/group-name", group)
	pod.Spec.SchedulerName = schedulerv1beta1.SchedulerName
	return pod
}

// groupIn returns a group to delete.
func (s service) groupIn(namespace, name string) *unstructured.Unstructured {
	group := s.new(name, nil)
	group.SetNamespace(namespace)
	return group
}

// createGroup creates a group of the victim in a queue, of the same name, with a pod of 2 CPUs.
func (c *cluster) createGroup(ctx context.Context, queue string) {
	GinkgoHelper()
	Expect(create(ctx, c.victim, victim, scheduler.group(queue, queue))).To(Succeed())
	Expect(create(ctx, c.victim, victim, podOf(queue, "2"))).To(Succeed())
}

// isPlaced has a group of the victim be placed from a queue.
func (c *cluster) isPlaced(ctx context.Context, queue string) {
	GinkgoHelper()
	c.admit(ctx, c.victim, victim, queue, queue)
	Expect(create(ctx, c.victim, victim, podOf(queue, "2"))).To(Succeed())
	Eventually(ctx, c.bound(ctx, queue)).Should(HaveLen(1))
	c.expectUnharmed()
}

// admit creates a group of a tenant in a queue, and returns when its new pods get the PriorityClass of the group.
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

// bound returns the pods of a group of the victim that are on nodes.
func (c *cluster) bound(ctx context.Context, group string) func() ([]string, error) {
	return func() ([]string, error) {
		bound, err := c.Bound(ctx, victim, group)
		return bound, c.unless(err)
	}
}

// reason reads the reason of a condition of a group; empty if it has none.
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

// crowd has pods of the attacker run that are of a group of the victim's queue, as they say.
func (c *cluster) crowd(ctx context.Context) {
	GinkgoHelper()
	Expect(create(ctx, c.attacker, attacker, scheduler.group("crowd", "lab"))).To(Succeed())
	for i := range 3 {
		pod := byItself(podOf("crowd", "1"))
		pod.Name = fmt.Sprintf("crowd-%d", i)
		Expect(create(ctx, c.attacker, attacker, pod)).To(Succeed())
	}
	Eventually(ctx, func() ([]string, error) { return c.Bound(ctx, attacker, "crowd") }).Should(HaveLen(3))
}

// hoard has pods of the attacker claim that a queue has let them through, which no node takes.
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

// keepSilent has a pod of the attacker run that names its node. It is in a group of kube-scheduler, which does not know
// the pod.
func (c *cluster) keepSilent(ctx context.Context) {
	GinkgoHelper()
	Expect(create(ctx, c.attacker, attacker, scheduler.group("silent", "open"))).To(Succeed())
	Eventually(ctx, c.reason(ctx, attacker, "silent", schedulerv1beta1.ConditionAdmitted)).
		Should(Equal(schedulerv1beta1.ReasonAdmitted))
	var nodes corev1.NodeList
	Expect(c.Client.List(ctx, &nodes)).To(Succeed())
	pod := byItself(podOf("silent", "1"))
	pod.Spec.NodeName = nodes.Items[0].Name
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("silent")}
	Expect(create(ctx, c.attacker, attacker, pod)).To(Succeed())
	// The kubelet reports it as scheduled.
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
}

// claimPriority has a pod of the attacker name the PriorityClass of another queue before its group exists.
func (c *cluster) claimPriority(ctx context.Context) {
	GinkgoHelper()
	priority := scheduler.group("urgent", "urgent")
	Expect(unstructured.SetNestedField(priority.Object, int64(10), "spec", "priority")).To(Succeed())
	Expect(create(ctx, c.victim, victim, priority)).To(Succeed())
	Eventually(ctx, c.reason(ctx, victim, "urgent", schedulerv1beta1.ConditionAdmitted)).
		Should(Equal(schedulerv1beta1.ReasonAdmitted)) // so that the class exists
	Eventually(ctx, func() error {
		pod := podOf("urgent", "1")
		pod.Spec.PriorityClassName = urgentClass
		return create(ctx, c.attacker, attacker, pod)
	}).Should(Succeed())
	Expect(create(ctx, c.attacker, attacker, scheduler.group("urgent", "shared"))).To(Succeed())
}

// requestMuch creates pods of the attacker, in a queue that takes them, that request resources of 6,000 names.
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

// askBesideSlow asks the extender while others ask slowly. It returns how many of those the extender had given up when
// it had answered.
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
	// The first one may come before the slow ones are read.
	for range 3 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.ExtenderAddress+"/reclaimable",
			strings.NewReader(`{"evictor":{},"evictees":[]}`))
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		if err != nil { // the extender had no time for it
			return given.Load() + 1
		}
		Expect(response.Body.Close()).To(Succeed())
		Expect(response.StatusCode).To(Equal(http.StatusOK))
	}
	return given.Load()
}
