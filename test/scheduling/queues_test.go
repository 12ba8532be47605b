package scheduling

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	jobgang "tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/test/simulated"
)

// amongQueues returns the arguments of a table that expects a case to pass on Volcano, with and without a crash of
// the scheduler-controller. The parameter onNative is the entry for kube-scheduler, which has no queues.
func amongQueues(body func(ctx context.Context, c cluster), onNative TableEntry) []any {
	return onEngines(body, onNative, passes(simulated.Volcano),
		Entry("volcano, with a crash of the controller", outcome{kind: simulated.Volcano, crash: true}, SpecTimeout(timeout)))
}

const (
	byAge        = "the older group is served first, not the group of the queue that uses less"
	notReclaimed = "no resources are reclaimed from other queues"
)

// Volcano orders equal queues by name. In each case, the queue that must be second has the name that sorts first, so
// that the order of the names cannot make the case pass.
var _ = Describe("Among queues", func() {
	DescribeTable("the queue with the highest priority is served first, even if it asked last",
		amongQueues(func(ctx context.Context, c cluster) {
			c.nodes(ctx, "1")
			c.queue(ctx, "held", v1beta1.QueueSpec{Preemptible: new(false)})
			c.queue(ctx, "bottom", v1beta1.QueueSpec{Priority: 1})
			c.queue(ctx, "top", v1beta1.QueueSpec{Priority: 2})
			held := c.running(ctx, members{name: "held", queue: "held", min: 1, pods: 1})
			c.gang(ctx, members{name: "bottom", queue: "bottom", priority: 90, min: 1, pods: 1})
			c.stillWaits(ctx, "bottom")
			c.gang(ctx, members{name: "top", queue: "top", priority: 10, min: 1, pods: 1})
			c.stillWaits(ctx, "top")
			c.crash()
			c.makeRoom(ctx, held)
			Eventually(ctx, c.bound(ctx, "top")).Should(HaveLen(1))
			c.stillWaits(ctx, "bottom")
		}, passes(simulated.Native))...)

	DescribeTable("of the same priority, the queue that uses less of its quota is served first, even if it asked last",
		amongQueues(func(ctx context.Context, c cluster) {
			c.nodes(ctx, "10")
			c.queue(ctx, "held", v1beta1.QueueSpec{})
			held := c.running(ctx, members{name: "held", queue: "held", min: 1, pods: 1})
			for _, name := range []string{"ahead", "behind"} {
				c.queue(ctx, name, v1beta1.QueueSpec{Quota: quota("cpu", "8")})
			}
			c.running(ctx, members{name: "ahead", queue: "ahead", min: 5, pods: 5})
			c.running(ctx, members{name: "behind", queue: "behind", min: 4, pods: 4})
			c.gang(ctx, members{name: "ahead-more", queue: "ahead", min: 1, pods: 1})
			c.stillWaits(ctx, "ahead-more")
			c.gang(ctx, members{name: "behind-more", queue: "behind", min: 1, pods: 1})
			c.stillWaits(ctx, "behind-more")
			c.crash()
			c.delete(ctx, held)
			Eventually(ctx, c.bound(ctx, "behind-more")).Should(HaveLen(1), byAge)
			c.stillWaits(ctx, "ahead-more")
		}, fails(simulated.Native, byAge))...)

	DescribeTable("without quotas, the queue with the smaller dominant share of the cluster is served first",
		amongQueues(func(ctx context.Context, c cluster) {
			c.nodes(ctx, "10") // the node also has 8 GPUs
			for _, name := range []string{"held", "ahead", "behind"} {
				c.queue(ctx, name, v1beta1.QueueSpec{})
			}
			held := c.running(ctx, members{name: "held", queue: "held", min: 1, pods: 1})
			// The dominant share of "ahead" is 6 of 8 GPUs. The dominant share of "behind" is 6 of 10 CPUs.
			c.running(ctx, members{name: "ahead", queue: "ahead", min: 3, pods: 3, gpu: "2"})
			c.running(ctx, members{name: "behind", queue: "behind", min: 6, pods: 6})
			c.gang(ctx, members{name: "ahead-more", queue: "ahead", min: 1, pods: 1})
			c.stillWaits(ctx, "ahead-more")
			c.gang(ctx, members{name: "behind-more", queue: "behind", min: 1, pods: 1})
			c.stillWaits(ctx, "behind-more")
			c.crash()
			c.delete(ctx, held)
			Eventually(ctx, c.bound(ctx, "behind-more")).Should(HaveLen(1), byAge)
			c.stillWaits(ctx, "ahead-more")
		}, fails(simulated.Native, byAge))...)
})

var _ = Describe("Resources", func() {
	DescribeTable("are reclaimed only from queues with a lower priority",
		amongQueues(func(ctx context.Context, c cluster) {
			c.nodes(ctx, "300")
			for _, q := range []struct {
				name     string
				cpu      string
				priority int32
				pods     int
			}{
				{"a", "200", 1, 3}, {"b", "100", 1, 1}, {"c", "50", 2, 1}, {"d", "200", 2, 1},
			} {
				c.queue(ctx, q.name, v1beta1.QueueSpec{Quota: quota("cpu", q.cpu), Priority: q.priority})
				c.running(ctx, members{name: q.name, queue: q.name, min: int32(q.pods), pods: q.pods, cpu: "50"})
			}
			By("adding a pod to b, which has a higher priority than no other queue")
			c.gang(ctx, members{name: "more-b", queue: "b", min: 1, pods: 1, cpu: "50"})
			c.stillWaits(ctx, "more-b")
			By("adding a pod to c, which has used up its quota")
			inC := c.gang(ctx, members{name: "more-c", queue: "c", min: 1, pods: 1, cpu: "50"})
			Eventually(ctx, c.reason(ctx, inC, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonQuotaExceeded))
			c.haveOnNodes(ctx, map[string]int{"a": 3, "b": 1, "c": 1, "d": 1, "more-b": 0, "more-c": 0})

			c.crash()
			By("adding a pod to d, which has a higher priority than a and b: a has the larger share of the two")
			c.gang(ctx, members{name: "more-d", queue: "d", min: 1, pods: 1, cpu: "50"})
			Eventually(ctx, c.bound(ctx, "more-d")).Should(HaveLen(1), notReclaimed)
			c.stillWaits(ctx, "more-b")
			c.haveOnNodes(ctx, map[string]int{"a": 2, "b": 1, "c": 1, "d": 1, "more-b": 0, "more-c": 0, "more-d": 1})
		}, fails(simulated.Native, notReclaimed))...)

	DescribeTable("are reclaimed through three levels of priority", amongQueues(func(ctx context.Context, c cluster) {
		c.nodes(ctx, "3")
		for i, name := range []string{"low", "middle", "high"} {
			c.queue(ctx, name, v1beta1.QueueSpec{Priority: int32(i)})
			c.running(ctx, members{name: name, queue: name, min: 1, pods: 1})
		}
		c.gang(ctx, members{name: "middle-2", queue: "middle", min: 1, pods: 1})
		Eventually(ctx, c.bound(ctx, "middle-2")).Should(HaveLen(1), notReclaimed)
		c.haveOnNodes(ctx, map[string]int{"low": 0, "middle": 1, "high": 1})
		c.gang(ctx, members{name: "middle-3", queue: "middle", min: 1, pods: 1})
		c.stillWaits(ctx, "middle-3")
		c.crash()
		c.gang(ctx, members{name: "high-2", queue: "high", min: 2, pods: 2})
		Eventually(ctx, c.bound(ctx, "high-2")).Should(HaveLen(2))
		c.gang(ctx, members{name: "high-3", queue: "high", min: 1, pods: 1})
		c.stillWaits(ctx, "high-3")
		c.haveOnNodes(ctx, map[string]int{"low": 0, "middle": 0, "middle-2": 0, "middle-3": 0, "high": 1, "high-2": 2})
	}, fails(simulated.Native, notReclaimed))...)

	DescribeTable("are not reclaimed from a queue until it is preemptible",
		amongQueues(func(ctx context.Context, c cluster) {
			c.nodes(ctx, "1")
			kept := c.queue(ctx, "kept", v1beta1.QueueSpec{Preemptible: new(false)})
			c.queue(ctx, "high", v1beta1.QueueSpec{Priority: 1})
			c.running(ctx, members{name: "kept", queue: "kept", min: 1, pods: 1})
			c.gang(ctx, members{name: "high", queue: "high", min: 1, pods: 1})
			c.crash()
			c.stillWaits(ctx, "high")
			c.haveOnNodes(ctx, map[string]int{"kept": 1})
			change(ctx, c, kept, func(q *v1beta1.Queue) { q.Spec.Preemptible = nil })
			Eventually(ctx, c.bound(ctx, "high")).Should(HaveLen(1), notReclaimed)
			c.haveOnNodes(ctx, map[string]int{"kept": 0})
		}, fails(simulated.Native, notReclaimed))...)

	DescribeTable("are reclaimed even if no quota names them, but not for a group that exceeds the quota of its queue",
		amongQueues(func(ctx context.Context, c cluster) {
			c.nodes(ctx, "4") // the node also has 8 GPUs
			low := c.queue(ctx, "low", v1beta1.QueueSpec{Preemptible: new(false)})
			high := c.queue(ctx, "high", v1beta1.QueueSpec{Quota: quota("nvidia.com/gpu", "3"), Priority: 1})
			c.running(ctx, members{name: "high", queue: "high", min: 1, pods: 1, gpu: "2"})
			c.running(ctx, members{name: "low", queue: "low", min: 1, pods: 3, gpu: "1"})
			gpus := c.gang(ctx, members{name: "gpus", queue: "high", min: 1, pods: 1, gpu: "1"})
			c.stillWaits(ctx, "gpus")

			By("lowering the quota before resources can be reclaimed")
			change(ctx, c, high, func(q *v1beta1.Queue) { q.Spec.Quota = quota("nvidia.com/gpu", "2") })
			Eventually(ctx, c.reason(ctx, gpus, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonQuotaExceeded))
			c.crash()
			change(ctx, c, low, func(q *v1beta1.Queue) { q.Spec.Preemptible = nil })
			c.gang(ctx, members{name: "cpus", queue: "high", min: 1, pods: 1})
			Eventually(ctx, c.bound(ctx, "cpus")).Should(HaveLen(1), notReclaimed)
			c.stillWaits(ctx, "gpus")
			c.haveOnNodes(ctx, map[string]int{"low": 2, "high": 1, "cpus": 1})

			By("raising the quota")
			change(ctx, c, high, func(q *v1beta1.Queue) { q.Spec.Quota = quota("nvidia.com/gpu", "3") })
			Eventually(ctx, c.bound(ctx, "gpus")).Should(HaveLen(1))
			c.haveOnNodes(ctx, map[string]int{"low": 1, "high": 1, "cpus": 1})
		}, fails(simulated.Native, notReclaimed))...)

	It("are not reclaimed on Volcano while the scheduler-controller is down, but after its restart",
		func(ctx context.Context) {
			c := startScheduler(ctx, simulated.Volcano)
			c.nodes(ctx, "1")
			c.queue(ctx, "low", v1beta1.QueueSpec{})
			c.queue(ctx, "high", v1beta1.QueueSpec{Priority: 1})
			c.running(ctx, members{name: "low", queue: "low", min: 1, pods: 1})
			By("creating a group that fits no node, so that Volcano asks the extender from now on")
			c.gang(ctx, members{name: "huge", queue: "high", min: 1, pods: 1, cpu: "2"})
			Eventually(ctx, func() (*bool, error) {
				var queue volcanov1beta1.Queue
				err := c.Client.Get(ctx, client.ObjectKey{Name: "low"}, &queue)
				return queue.Spec.Reclaimable, err
			}).Should(HaveValue(BeTrue()))
			high := c.gang(ctx, members{name: "high", queue: "high", min: 1})
			c.scheduler.kill()
			c.pod(ctx, high, "high-0", jobgang.Member{}, "")
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, "high")).To(Succeed())
			c.haveOnNodes(ctx, map[string]int{"low": 1, "high": 0})
			c.scheduler.start()
			Eventually(ctx, c.bound(ctx, "high")).Should(HaveLen(1))
			c.haveOnNodes(ctx, map[string]int{"low": 0, "huge": 0})
		}, SpecTimeout(timeout))
})

var _ = Describe("A quota", func() {
	DescribeTable("can limit the number of pods, and can be 0", onBoth(func(ctx context.Context, c cluster) {
		c.nodes(ctx, "4")
		c.queue(ctx, "one", v1beta1.QueueSpec{Quota: quota("pods", "1")})
		c.queue(ctx, "none", v1beta1.QueueSpec{Quota: quota("cpu", "0")})
		first := c.running(ctx, members{name: "first", queue: "one", min: 1, pods: 1})
		for queue, name := range map[string]string{"one": "second", "none": "nothing"} {
			group := c.gang(ctx, members{name: name, queue: queue, min: 1, pods: 1})
			Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionGroupScheduled)).Should(Equal(v1beta1.ReasonQuotaExceeded))
		}
		c.delete(ctx, first)
		Eventually(ctx, c.bound(ctx, "second")).Should(HaveLen(1))
		Expect(c.bound(ctx, "nothing")()).To(BeEmpty())
	})...)
})

// quota returns a quota for one resource.
func quota(name corev1.ResourceName, quantity string) *v1beta1.QueueQuota {
	return &v1beta1.QueueQuota{Requests: corev1.ResourceList{name: resource.MustParse(quantity)}}
}

// nodes adds a node for each quantity of CPU.
func (c cluster) nodes(ctx context.Context, cpus ...string) {
	GinkgoHelper()
	_, err := c.AddNodes(ctx, cpus...)
	Expect(err).NotTo(HaveOccurred())
}

// running creates a gang and waits until all its pods run. Before its pods run, no resources can be reclaimed from
// the gang.
func (c cluster) running(ctx context.Context, m members) *v1beta1.PodGroup {
	GinkgoHelper()
	group := c.gang(ctx, m)
	Eventually(ctx, func() (int32, error) {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(group), group)
		return group.Status.Running, err
	}).Should(Equal(int32(m.pods)), m.name)
	return group
}

// stillWaits checks that three attempts of the engine to place a group fail.
func (c cluster) stillWaits(ctx context.Context, group string) {
	GinkgoHelper()
	waiting := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: group}}
	Eventually(ctx, c.reason(ctx, waiting, v1beta1.ConditionGroupScheduled)).
		Should(BeElementOf(v1beta1.ReasonUnschedulable, v1beta1.ReasonQuotaExceeded))
	Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, group)).To(Succeed())
	Expect(c.bound(ctx, group)()).To(BeEmpty(), group)
}

// haveOnNodes expects the given number of pods of each group on nodes. It does not count pods that are being deleted.
func (c cluster) haveOnNodes(ctx context.Context, want map[string]int) {
	GinkgoHelper()
	got := map[string]int{}
	for name := range want {
		var pods corev1.PodList
		Expect(c.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault),
			client.MatchingLabels{v1beta1.LabelGroupName: name})).To(Succeed())
		got[name] = 0
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName != "" && pods.Items[i].DeletionTimestamp.IsZero() {
				got[name]++
			}
		}
	}
	Expect(got).To(Equal(want), "pods on nodes")
}
