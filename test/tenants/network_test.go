package tenants

import (
	"context"
	"fmt"
	"slices"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/framework"
)

// No network enforces the NetworkPolicies here. Instead, the spec uses cyclonus, a conformance test for
// NetworkPolicies. From the objects in the API server, cyclonus computes whether a connection is allowed.
var _ = Describe("The ports", Label("network"), func() {
	// 2222 is the port of TensorFlow and of DeepSpeed's ssh, and 29500 is the port of PyTorch. 40000 was chosen at
	// random.
	trainingPorts := []int{2222, 29500, 40000}

	forEachJob("of a job are closed to another tenant:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		c.addComponent(ctx, s, "networkpolicies")
		c.run(ctx, s)
		members, intruder := c.intrudeIntoJob(ctx, s)
		controller := c.pod(ctx, "t9k-"+s.module, s.module+"-controller")
		for _, port := range slices.Concat(trainingPorts, []int{framework.ProgressPort}) {
			Expect(c.lets(ctx, intruder, &members[0], port)).To(BeFalse(), "port %d", port)
			Expect(c.lets(ctx, &members[1], &members[0], port)).To(BeTrue(), "port %d", port)
			Expect(c.lets(ctx, controller, &members[0], port)).To(Equal(port == framework.ProgressPort), "port %d", port)
		}
		c.jobSucceeds(ctx, s, "job")
	})

	It("of a job would be open to another tenant without --network-policies", Label("pytorch"), func(ctx context.Context) {
		c := runController(ctx, pytorch)
		members, intruder := c.intrudeIntoJob(ctx, pytorch)
		for _, port := range trainingPorts {
			Expect(c.lets(ctx, intruder, &members[0], port)).To(BeTrue(), "port %d", port)
		}
	})

	const user, sidecar = 6006, 8080
	It("of a TensorBoard are closed to another tenant", Label("tensorboard"), func(ctx context.Context) {
		c := start(ctx, tensorboard.module)
		c.addComponent(ctx, tensorboard, "networkpolicies")
		c.run(ctx, tensorboard)
		board, intruder := c.intrudeIntoBoard(ctx)
		controller := c.pod(ctx, "t9k-tensorboard", "tensorboard-controller")
		neighbour := c.createPod(ctx, c.victim, victim, map[string]string{"app": "notebook"})
		for from, open := range map[*corev1.Pod][]int{intruder: nil, neighbour: {user}, controller: {sidecar}} {
			for _, port := range []int{user, sidecar} {
				Expect(c.lets(ctx, from, board, port)).To(Equal(slices.Contains(open, port)), "%s, port %d", from.Name, port)
			}
		}
	})

	It("of a TensorBoard would be open to another tenant without --network-policies", Label("tensorboard"),
		func(ctx context.Context) {
			c := runController(ctx, tensorboard)
			board, intruder := c.intrudeIntoBoard(ctx)
			Expect(c.lets(ctx, intruder, board, user)).To(BeTrue())
			Expect(c.lets(ctx, intruder, board, sidecar)).To(BeTrue())
		})
})

// intrudeIntoJob runs the victim's job "job". It returns the pods of the job and a pod of the attacker with the same
// labels. The attacker's NetworkPolicies allow all traffic.
func (c *cluster) intrudeIntoJob(ctx context.Context, s service) (members []corev1.Pod, intruder *corev1.Pod) {
	GinkgoHelper()
	Expect(create(ctx, c.victim, victim, reporting(s.job("job", 2, plain())))).To(Succeed())
	c.jobHasPods(ctx, s, "job")
	members, err := c.podsOf(ctx, s, victim, "job")
	Expect(err).NotTo(HaveOccurred())
	return members, c.intrude(ctx, members[0].Labels)
}

// intrudeIntoBoard runs the victim's TensorBoard "board". It returns the pod of the TensorBoard and a pod of the
// attacker with the same labels. The attacker's NetworkPolicies allow all traffic.
func (c *cluster) intrudeIntoBoard(ctx context.Context) (board, intruder *corev1.Pod) {
	GinkgoHelper()
	boardRuns(ctx, c, tensorboard, "board")
	board = c.pod(ctx, victim, "board-tb")
	return board, c.intrude(ctx, board.Labels)
}

// intrude creates a pod of the attacker with the labels of a pod of the victim, and NetworkPolicies of the attacker
// that allow all traffic.
func (c *cluster) intrude(ctx context.Context, labels map[string]string) *corev1.Pod {
	GinkgoHelper()
	Expect(create(ctx, c.attacker, attacker, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{}},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
		},
	})).To(Succeed())
	return c.createPod(ctx, c.attacker, attacker, labels)
}

// createPod creates a pod of a tenant with labels.
func (c *cluster) createPod(
	ctx context.Context, as client.Client, namespace string, labels map[string]string,
) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Labels: labels}, Spec: plain().Spec}
	Expect(create(ctx, as, namespace, pod)).To(Succeed())
	return pod
}

// pod reads a pod.
func (c *cluster) pod(ctx context.Context, namespace, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)).To(Succeed())
	return pod
}

// lets reports whether the NetworkPolicies of the cluster allow a pod to connect to a port of another pod.
func (c *cluster) lets(ctx context.Context, from, to *corev1.Pod, port int) (bool, error) {
	var list networkingv1.NetworkPolicyList
	if err := c.Client.List(ctx, &list); err != nil {
		return false, err
	}
	policies := make([]*networkingv1.NetworkPolicy, 0, len(list.Items))
	for i := range list.Items {
		policies = append(policies, &list.Items[i])
	}
	var peers []*matcher.TrafficPeer
	for i, pod := range []*corev1.Pod{from, to} {
		namespace := &corev1.Namespace{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: pod.Namespace}, namespace); err != nil {
			return false, err
		}
		peers = append(peers, &matcher.TrafficPeer{
			IP: fmt.Sprintf("10.244.0.%d", i+1), // any address, because no policy has an ipBlock
			Internal: &matcher.InternalPeer{
				PodLabels: pod.Labels, NamespaceLabels: namespace.Labels, Namespace: namespace.Name,
			},
		})
	}
	return matcher.BuildNetworkPolicies(false, policies).IsTrafficAllowed(&matcher.Traffic{
		Source: peers[0], Destination: peers[1], ResolvedPort: port, Protocol: corev1.ProtocolTCP,
	}).IsAllowed(), nil
}
