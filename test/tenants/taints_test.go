package tenants

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/kubelet"
)

var _ = Describe("A job that tolerates a taint of a node for a moment", Label("time"), func() {
	forEachJob("does not make the node count as lost:", func(ctx context.Context, s service) {
		c := runController(ctx, s)
		c.createTolerating(ctx, s)
		Eventually(ctx, c.failure(ctx, s)).Should(Equal("Evicted"))
		c.expectUnharmed()
	})

	It("would make the node count as lost if any taint did", Label("pytorch"), func(ctx context.Context) {
		s := pytorch.with("a node counts as lost because of any taint")
		c := runController(ctx, s)
		c.createTolerating(ctx, s)
		Eventually(ctx, c.failure(ctx, s)).Should(Equal("NodeLost"))
	})
})

// createTolerating creates a node with a taint, and a job of the attacker whose pod names the node and tolerates the
// taint for a moment. The pod is evicted while it runs.
func (c *cluster) createTolerating(ctx context.Context, s service) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "maintained"}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "example.org/maintenance", Effect: corev1.TaintEffectNoExecute}},
	}}
	Expect(c.Client.Create(ctx, node)).To(Succeed())
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	Expect(c.Client.Status().Patch(ctx, node, client.MergeFrom(before))).To(Succeed())

	template := plain()
	template.Spec.NodeName = node.Name
	template.Spec.Tolerations = []corev1.Toleration{{
		Key: "example.org/maintenance", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(30)),
	}}
	Expect(create(ctx, c.attacker, attacker, s.job("tolerating", 1, template))).To(Succeed())
	Eventually(ctx, func() error {
		pods, err := c.podsOf(ctx, s, attacker, "tolerating")
		if err == nil && len(pods) == 0 {
			err = errors.New("the job has no pod yet")
		}
		if err != nil {
			return err
		}
		return c.report(ctx, &pods[0], func(pod *corev1.Pod) { kubelet.Run(pod, "", time.Now()) })
	}).Should(Succeed())
}

// failure returns a function that reads the reason of the first failure of the attacker's job.
func (c *cluster) failure(ctx context.Context, s service) func() (string, error) {
	return func() (string, error) {
		job := s.new("tolerating", nil)
		err := c.attacker.Get(ctx, client.ObjectKey{Namespace: attacker, Name: "tolerating"}, job)
		failures, _, _ := unstructured.NestedSlice(job.Object, "status", "failures")
		if len(failures) == 0 {
			return "", c.unless(err)
		}
		return failures[0].(map[string]any)["reason"].(string), c.unless(err)
	}
}
