package scheduling

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	jobgang "tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/test/simulated"
)

// outcome is the expected outcome of a case on an engine.
type outcome struct {
	kind simulated.Kind
	// failure is the description of the expectation that must fail. Empty means that the case must pass.
	failure string
	// crash is true if cluster.crash restarts the scheduler-controller.
	crash bool
}

// passes returns an entry that expects a case to pass on an engine.
func passes(kind simulated.Kind) TableEntry {
	return Entry(string(kind), outcome{kind: kind}, SpecTimeout(timeout))
}

// fails returns an entry that expects a case to fail on an engine.
func fails(kind simulated.Kind, failure string) TableEntry {
	return Entry(string(kind), outcome{kind: kind, failure: failure}, SpecTimeout(timeout))
}

// withoutGangs returns an entry that expects a case to fail on kube-scheduler without gangs. A case that passes there
// does not test gangs.
func withoutGangs(failure string) TableEntry { return fails(simulated.Plain, failure) }

// onEngines returns the arguments of a table. The table runs a case once for each entry, and expects the outcome of
// the entry.
func onEngines(body func(ctx context.Context, c cluster), entries ...TableEntry) []any {
	arguments := []any{func(ctx context.Context, want outcome) {
		c := startScheduler(ctx, want.kind)
		c.crashes = want.crash
		if want.failure == "" {
			body(ctx, c)
			return
		}
		Expect(InterceptGomegaFailure(func() { body(ctx, c) })).To(MatchError(ContainSubstring(want.failure)))
		AddReportEntry(expectedFailure, want.failure)
	}}
	for _, entry := range entries {
		arguments = append(arguments, entry)
	}
	return arguments
}

// onBoth returns the arguments of a table that expects a case to pass on both engines. The parameter others has
// additional entries.
func onBoth(body func(ctx context.Context, c cluster), others ...TableEntry) []any {
	return onEngines(body, append([]TableEntry{passes(simulated.Native), passes(simulated.Volcano)}, others...)...)
}

const (
	partBound = "part of the gang is bound"
	bothBound = "both gangs are partly bound"
)

var _ = Describe("A PodGroup", func() {
	DescribeTable("is all or nothing: 4 pods wait on 3 CPUs, and are bound together when a node is added",
		onBoth(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			group := c.gang(ctx, members{name: "gang", min: 4, pods: 4})
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, "gang")).To(Succeed())
			Expect(c.bound(ctx, "gang")()).To(BeEmpty(), partBound)
			Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonUnschedulable))
			_, err = c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(4))
			Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonScheduled))
			Eventually(ctx, func() (int32, error) {
				err := c.Client.Get(ctx, client.ObjectKeyFromObject(group), group)
				return group.Status.Running, err
			}).Should(Equal(int32(4)))
		}, withoutGangs(partBound))...)

	DescribeTable("is not bound in part on fragmented nodes: 2 pods of 2 CPUs wait on nodes of 2, 1 and 1",
		onBoth(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "2", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			c.gang(ctx, members{name: "gang", min: 2, pods: 2, cpu: "2"})
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, "gang")).To(Succeed())
			Expect(c.bound(ctx, "gang")()).To(BeEmpty(), partBound)
		}, withoutGangs(partBound))...)

	DescribeTable("does not deadlock with another one: two of 4 pods run one after the other on 4 CPUs, 20 times",
		onBoth(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			for round := range 20 {
				var groups []*v1beta1.PodGroup
				for _, name := range []string{"a", "b"} {
					groups = append(groups, c.gang(ctx, members{name: fmt.Sprintf("%s%d", name, round), min: 4}))
				}
				for i := range 4 {
					for _, group := range groups {
						c.pod(ctx, group, fmt.Sprintf("%s-%d", group.Name, i), jobgang.Member{}, "")
					}
				}
				both := func(g Gomega) []int {
					var counts []int
					for _, group := range groups {
						names, err := c.Bound(ctx, group.Namespace, group.Name)
						g.Expect(err).NotTo(HaveOccurred())
						counts = append(counts, len(names))
					}
					return counts
				}
				Eventually(ctx, both).Should(ConsistOf(0, 4), bothBound+", round %d", round)
				first, second := groups[0], groups[1]
				if both(Default)[0] == 0 {
					first, second = second, first
				}
				c.delete(ctx, first)
				Eventually(ctx, c.bound(ctx, second.Name)).Should(HaveLen(4), "round %d", round)
				c.delete(ctx, second)
				Eventually(ctx, c.bound(ctx, second.Name)).Should(BeEmpty(), "round %d", round)
			}
		}, withoutGangs(bothBound))...)

	DescribeTable("can be elastic: if 4 of 7 pods are needed, none run on 3 CPUs, 5 on 5, and 7 on 7",
		onBoth(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			c.gang(ctx, members{name: "gang", min: 4, pods: 7})
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, "gang")).To(Succeed())
			Expect(c.bound(ctx, "gang")()).To(BeEmpty(), partBound)
			_, err = c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(5))
			_, err = c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(7))
		}, withoutGangs(partBound))...)

	DescribeTable("waits for required roles: 3 workers that fit are not bound while the master does not fit",
		onBoth(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "2")
			Expect(err).NotTo(HaveOccurred())
			c.gang(ctx, members{name: "other", min: 1, pods: 1})
			Eventually(ctx, c.bound(ctx, "other")).Should(HaveLen(1))
			_, err = c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			group := c.group(ctx, members{name: "gang", min: 3, roles: []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}}})
			c.admitted(ctx, group)
			c.pod(ctx, group, "master", jobgang.Member{Role: "master"}, "2")
			for i := range 3 {
				c.pod(ctx, group, fmt.Sprintf("worker-%d", i), jobgang.Member{Role: "worker", Extra: i == 2}, "")
			}
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, "gang")).To(Succeed())
			Expect(c.bound(ctx, "gang")()).To(BeEmpty(), partBound)
			_, err = c.AddNodes(ctx, "4") // enough room for any order of the pods
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(4))
		}, withoutGangs(partBound))...)

	DescribeTable("gets a replacement pod bound after a peer has succeeded", onBoth(func(ctx context.Context, c cluster) {
		_, err := c.AddNodes(ctx, "1", "1", "1", "1")
		Expect(err).NotTo(HaveOccurred())
		group := c.gang(ctx, members{name: "gang", min: 4, pods: 4})
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(4))
		succeed(ctx, c, "gang-0")
		Expect(c.Client.Delete(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: "gang-1"},
		})).To(Succeed())
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(3))
		c.pod(ctx, group, "gang-1", jobgang.Member{}, "")
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(4))
	})...)

	DescribeTable("with a higher priority goes first if two wait for the same place in a queue",
		onBoth(func(ctx context.Context, c cluster) {
			nodes, err := c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Expect(nodes).To(HaveLen(1))
			first := c.gang(ctx, members{name: "first", min: 1, pods: 1})
			Eventually(ctx, c.bound(ctx, "first")).Should(HaveLen(1))
			c.gang(ctx, members{name: "low", priority: 10, min: 1, pods: 1})
			c.gang(ctx, members{name: "high", priority: 90, min: 1, pods: 1})
			for _, name := range []string{"low", "high"} {
				Expect(c.Retry(ctx, 1, corev1.NamespaceDefault, name)).To(Succeed())
			}
			Expect(c.bound(ctx, "first")()).To(HaveLen(1), "no preemption inside a queue")
			c.makeRoom(ctx, first)
			Eventually(ctx, c.bound(ctx, "high")).Should(HaveLen(1))
			Expect(c.bound(ctx, "low")()).To(BeEmpty())
		})...)
})

var _ = Describe("A TensorBoard", func() {
	DescribeTable("is scheduled from its queue, and releases its resources when it is suspended",
		onBoth(func(ctx context.Context, c cluster) {
			Expect(tensorboardv1beta1.AddToScheme(c.Client.Scheme())).To(Succeed())
			_, err := c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			c.queue(ctx, "small", v1beta1.QueueSpec{
				Quota: &v1beta1.QueueQuota{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m")}},
			})
			startController(c.ControlPlane, "tensorboard")
			boards := map[string]*tensorboardv1beta1.TensorBoard{}
			for _, name := range []string{"first", "second"} {
				boards[name] = &tensorboardv1beta1.TensorBoard{
					ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: name},
					Spec: tensorboardv1beta1.TensorBoardSpec{
						TrainingLogFilesets: []tensorboardv1beta1.FilesetURI{"t9k://minio/secret/bucket"},
						Scheduler:           &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "small"}},
					},
				}
				Expect(c.Client.Create(ctx, boards[name])).To(Succeed())
				if name == "first" {
					Eventually(ctx, c.bound(ctx, "first-tb")).Should(HaveLen(1))
				}
			}
			Eventually(ctx, func() (string, error) {
				err := c.Client.Get(ctx, client.ObjectKeyFromObject(boards["second"]), boards["second"])
				if err != nil || len(boards["second"].Status.Conditions) == 0 {
					return "", err
				}
				return boards["second"].Status.Conditions[0].Reason, nil
			}).Should(Equal(v1beta1.ReasonQuotaExceeded))
			change(ctx, c, boards["first"], func(tb *tensorboardv1beta1.TensorBoard) { tb.Spec.Suspend = true })
			Eventually(ctx, c.bound(ctx, "second-tb")).Should(HaveLen(1))
		})...)
})

var _ = Describe("A Queue", func() {
	DescribeTable("never exceeds its quota, and groups report that they wait for it",
		onBoth(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "8")
			Expect(err).NotTo(HaveOccurred())
			queue := c.queue(ctx, "small", v1beta1.QueueSpec{
				Quota: &v1beta1.QueueQuota{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}},
			})
			first := c.gang(ctx, members{name: "first", queue: "small", min: 2, pods: 2})
			Eventually(ctx, c.bound(ctx, "first")).Should(HaveLen(2))
			second := c.gang(ctx, members{name: "second", queue: "small", min: 2, pods: 2})
			Eventually(ctx, c.reason(ctx, second, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonQuotaExceeded))
			Expect(c.bound(ctx, "second")()).To(BeEmpty())
			Eventually(ctx, func() (string, error) {
				err := c.Client.Get(ctx, client.ObjectKeyFromObject(queue), queue)
				return queue.Status.Allocated.Cpu().String(), err
			}).Should(Equal("2"))
			c.delete(ctx, first)
			Eventually(ctx, c.bound(ctx, "second")).Should(HaveLen(2))
		})...)

	DescribeTable("admits no group while it is closed", onBoth(func(ctx context.Context, c cluster) {
		_, err := c.AddNodes(ctx, "2")
		Expect(err).NotTo(HaveOccurred())
		queue := c.queue(ctx, "shut", v1beta1.QueueSpec{Closed: true})
		group := c.group(ctx, members{name: "gang", queue: "shut", min: 1})
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionAdmitted)).Should(Equal(v1beta1.ReasonQueueClosed))
		change(ctx, c, queue, func(q *v1beta1.Queue) { q.Spec.Closed = false })
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionAdmitted)).Should(Equal(v1beta1.ReasonAdmitted))
		c.pod(ctx, group, "gang-0", jobgang.Member{}, "")
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(1))
	})...)

	DescribeTable("deletes pods that are older than its maximum duration", onBoth(func(ctx context.Context, c cluster) {
		_, err := c.AddNodes(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		limit := v1beta1.Duration("4s")
		c.queue(ctx, "short", v1beta1.QueueSpec{MaxDuration: &limit})
		c.gang(ctx, members{name: "gang", queue: "short", min: 1, pods: 1})
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(1))
		Eventually(ctx, c.bound(ctx, "gang")).Should(BeEmpty())
	})...)

	DescribeTable("places its pods only on the nodes that it selects", onBoth(func(ctx context.Context, c cluster) {
		nodes, err := c.AddNodes(ctx, "4", "1")
		Expect(err).NotTo(HaveOccurred())
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"pool": "training"}}}`))
		Expect(c.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes[1]}}, label)).To(Succeed())
		c.queue(ctx, "pool", v1beta1.QueueSpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "training"}},
		})
		c.gang(ctx, members{name: "gang", queue: "pool", min: 1, pods: 2})
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(1))
		var pods corev1.PodList
		Expect(c.Client.List(ctx, &pods, client.MatchingLabels{v1beta1.LabelGroupName: "gang"})).To(Succeed())
		for i := range pods.Items {
			Expect(pods.Items[i].Spec.NodeName).To(BeElementOf("", nodes[1]))
		}
	})...)
})

// succeed sets the phase of a pod to Succeeded, as the kubelet does.
func succeed(ctx context.Context, c cluster, name string) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Eventually(ctx, func() error {
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}, pod); err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodSucceeded
		return c.Client.Status().Update(ctx, pod)
	}).Should(Succeed())
}
