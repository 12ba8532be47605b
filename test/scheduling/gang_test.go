package scheduling

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

const timeout = 5 * time.Minute

var _ = Describe("A gang of 4 pods on 3 CPUs", func() {
	DescribeTable("that is created in the engine without the scheduler-controller",
		func(ctx context.Context, kind simulated.Kind, boundOnThree int) {
			c := start(ctx, kind)
			_, err := c.AddNodes(ctx, "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			gang{name: "gang", minMember: 4, pods: 4}.create(ctx, c)

			By("waiting until the engine has made three attempts")
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, "gang")).To(Succeed())
			Expect(c.Bound(ctx, corev1.NamespaceDefault, "gang")).To(HaveLen(boundOnThree))

			By("adding a node")
			_, err = c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.Bound).WithContext(ctx).WithArguments(corev1.NamespaceDefault, "gang").Should(HaveLen(4))
		},
		Entry("waits on kube-scheduler with gangs, and is then bound as a whole", simulated.Native, 0, SpecTimeout(timeout)),
		Entry("waits on Volcano, and is then bound as a whole", simulated.Volcano, 0, SpecTimeout(timeout)),
		Entry("is bound in part on kube-scheduler without gangs", simulated.Plain, 3, SpecTimeout(timeout)),
	)
})

var _ = Describe("A gang that waits when the engine crashes", func() {
	DescribeTable("is bound as a whole when there is room and the engine restarts",
		func(ctx context.Context, kind simulated.Kind) {
			c := start(ctx, kind)
			nodes, err := c.AddNodes(ctx, "2", "1")
			Expect(err).NotTo(HaveOccurred())
			gang{name: "gang", minMember: 4, pods: 4}.create(ctx, c)
			Expect(c.Retry(ctx, 1, corev1.NamespaceDefault, "gang")).To(Succeed())

			Expect(c.Kill(c.Engine)).To(Succeed())
			Expect(c.RemoveNode(ctx, nodes[1])).To(Succeed())
			_, err = c.AddNodes(ctx, "2")
			Expect(err).NotTo(HaveOccurred())
			Expect(c.Bound(ctx, corev1.NamespaceDefault, "gang")).To(BeEmpty())

			Expect(c.Restart(ctx, c.Engine)).To(Succeed())
			Eventually(c.Bound).WithContext(ctx).WithArguments(corev1.NamespaceDefault, "gang").Should(HaveLen(4))
		},
		Entry("on kube-scheduler with gangs", simulated.Native, SpecTimeout(timeout)),
		Entry("on Volcano", simulated.Volcano, SpecTimeout(timeout)),
	)
})

var _ = Describe("A kube-scheduler without gangs, while the API server supports them,", func() {
	It("is detected because it binds the pods of a group one by one", func(ctx context.Context) {
		c := cluster{ControlPlane: start(ctx, simulated.Mixed, "../../scheduler/config/crd")}
		Expect(v1beta1.AddToScheme(c.Client.Scheme())).To(Succeed())
		startController(c.ControlPlane, "scheduler", "--engine=native")
		c.queue(ctx, "default", v1beta1.QueueSpec{})
		_, err := c.AddNodes(ctx, "1", "1", "1")
		Expect(err).NotTo(HaveOccurred())
		group := c.gang(ctx, members{name: "gang", min: 4, pods: 4})
		Eventually(ctx, c.bound(ctx, "gang")).Should(HaveLen(3))
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionAdmitted)).Should(Equal(v1beta1.ReasonEngineNotReady))
	}, SpecTimeout(timeout))
})

// gang is a group of equal pods. It is created with the objects of the engine, without the scheduler-controller.
type gang struct {
	name      string
	minMember int32
	pods      int
}

func (g gang) create(ctx context.Context, c *simulated.ControlPlane) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: g.name}
	switch c.Kind {
	case simulated.Native:
		group := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: g.minMember}
		Expect(c.Client.Create(ctx, group)).To(Succeed())
	case simulated.Volcano:
		openDefaultQueue(ctx, c)
		group := &volcanov1beta1.PodGroup{ObjectMeta: meta, Spec: volcanov1beta1.PodGroupSpec{MinMember: g.minMember}}
		Expect(c.Client.Create(ctx, group)).To(Succeed())
	case simulated.Plain, simulated.Mixed, simulated.None:
	}
	for i := range g.pods {
		Expect(c.Client.Create(ctx, g.pod(c.Kind, i))).To(Succeed())
	}
}

// openDefaultQueue opens the default queue of Volcano. Volcano's scheduler creates the queue without a state, and
// schedules nothing from a queue that is not open. Volcano's controllers, which would open the queue, do not run.
func openDefaultQueue(ctx context.Context, c *simulated.ControlPlane) {
	GinkgoHelper()
	queue := &volcanov1beta1.Queue{}
	Eventually(ctx, func() error {
		if err := c.Client.Get(ctx, client.ObjectKey{Name: volcanov1beta1.DefaultQueue}, queue); err != nil {
			return err
		}
		queue.Status.State = volcanov1beta1.QueueStateOpen
		if queue.Status.Allocated == nil {
			queue.Status.Allocated = corev1.ResourceList{}
		}
		return c.Client.Status().Update(ctx, queue)
	}).Should(Succeed())
}

// pod returns the i-th pod of the gang. It requests one CPU.
func (g gang) pod(kind simulated.Kind, i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceDefault,
			Name:      fmt.Sprintf("%s-%d", g.name, i),
			Labels:    map[string]string{simulated.LabelGroup: g.name},
		},
		Spec: corev1.PodSpec{
			SchedulerName: simulated.SchedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: "image",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				},
			}},
		},
	}
	switch kind {
	case simulated.Native:
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.name}
	case simulated.Volcano:
		pod.Annotations = map[string]string{volcanov1beta1.KubeGroupNameAnnotationKey: g.name}
	case simulated.Plain, simulated.Mixed, simulated.None:
	}
	return pod
}
