// Package networkpolicies runs the tensorboard-controller with --network-policies against a real API server, with the
// permissions of the shipped component networkpolicies. In these tests, no network enforces the NetworkPolicies.
package networkpolicies

import (
	"context"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/suite"
	"tensorstack.dev/jobs/tensorboard"
)

var plane *controlplane.ControlPlane

func TestIntegration(t *testing.T) {
	suite.Run(t, "tensorboard-controller with --network-policies")
}

var _ = BeforeSuite(func() {
	options := tensorboard.DefaultOptions()
	options.NetworkPolicies.Enabled = true
	plane = suite.Controller{
		Program: tensorboard.Program(options), Namespace: "t9k-tensorboard", ConfigFolder: "../../config",
		Components: []string{"networkpolicies"},
	}.Start()
})

// newNamespace creates a namespace and returns its name.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(plane.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// create creates a TensorBoard.
func create(ctx context.Context, namespace string) *v1beta1.TensorBoard {
	GinkgoHelper()
	tb := &v1beta1.TensorBoard{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "board"},
		Spec:       v1beta1.TensorBoardSpec{TrainingLogFilesets: []v1beta1.FilesetURI{"t9k://minio/secret/bucket/logs"}},
	}
	Expect(plane.Client.Create(ctx, tb)).To(Succeed())
	return tb
}

// policy returns a function that reads the NetworkPolicy of a TensorBoard, for Eventually.
func policy(ctx context.Context, tb *v1beta1.TensorBoard) func() (*networkingv1.NetworkPolicy, error) {
	return func() (*networkingv1.NetworkPolicy, error) {
		found := &networkingv1.NetworkPolicy{}
		return found, plane.Client.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: "board-tb"}, found)
	}
}

// pod returns a function that reads the pod of a TensorBoard, for Eventually.
func pod(ctx context.Context, tb *v1beta1.TensorBoard) func() (*corev1.Pod, error) {
	return func() (*corev1.Pod, error) {
		found := &corev1.Pod{}
		return found, plane.Client.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: "board-tb"}, found)
	}
}

var _ = Describe("With --network-policies, a TensorBoard", func() {
	It("gets a NetworkPolicy that allows access by the controller, and then its pod", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx))
		Eventually(ctx, pod(ctx, tb)).Should(HaveField("Labels", HaveKeyWithValue(v1beta1.LabelName, "board")))
		created, err := policy(ctx, tb)()
		Expect(err).NotTo(HaveOccurred())
		Expect(metav1.IsControlledBy(created, tb)).To(BeTrue(), "the NetworkPolicy must be deleted with the TensorBoard")
		Expect(created.Spec.PodSelector.MatchLabels).To(Equal(map[string]string{v1beta1.LabelName: "board"}))
		Expect(created.Spec.Ingress).To(HaveLen(2))
		controllers := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "t9k-tensorboard"}}
		Expect(created.Spec.Ingress[1].From).To(ConsistOf(networkingv1.NetworkPolicyPeer{NamespaceSelector: controllers}))
		writes := plane.Writes.In(tb.Namespace, "/")
		of := func(resource string) int {
			return slices.IndexFunc(writes, func(write string) bool { return strings.HasSuffix(write, resource) })
		}
		Expect(of("/networkpolicies")).To(BeNumerically("<", of("/pods")), "%q", writes)
		Expect(plane.Writes.In(tb.Namespace, "/networkpolicies")).To(HaveLen(1))
	})

	It("gets a new NetworkPolicy if somebody deletes it", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx))
		Eventually(ctx, policy(ctx, tb)).ShouldNot(BeNil())
		first, err := policy(ctx, tb)()
		Expect(err).NotTo(HaveOccurred())
		Expect(plane.Client.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, policy(ctx, tb)).Should(And(HaveField("UID", Not(Equal(first.UID))), HaveField("Spec", first.Spec)))
	})

	It("gets its NetworkPolicy restored if somebody changes it", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx))
		Eventually(ctx, policy(ctx, tb)).ShouldNot(BeNil())
		before, err := policy(ctx, tb)()
		Expect(err).NotTo(HaveOccurred())
		opened := before.DeepCopy()
		opened.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		Expect(plane.Client.Patch(ctx, opened, client.MergeFrom(before))).To(Succeed())
		Eventually(ctx, policy(ctx, tb)).Should(And(HaveField("UID", before.UID), HaveField("Spec", before.Spec)))
	})

	It("has no pod while the name of its NetworkPolicy is taken", func(ctx context.Context) {
		foreign := &networkingv1.NetworkPolicy{}
		foreign.Namespace, foreign.Name = newNamespace(ctx), "board-tb"
		Expect(plane.Client.Create(ctx, foreign)).To(Succeed())
		tb := create(ctx, foreign.Namespace)
		Eventually(ctx, func() ([]v1beta1.TensorBoardCondition, error) {
			err := plane.Client.Get(ctx, client.ObjectKeyFromObject(tb), tb)
			return tb.Status.Conditions, err
		}).Should(ContainElement(And(
			HaveField("Type", v1beta1.ConditionReady), HaveField("Reason", "NameConflict"),
			HaveField("Message", ContainSubstring("the TensorBoard needs networkpolicy board-tb, but one exists")))))
		_, err := pod(ctx, tb)()
		Expect(err).To(Satisfy(apierrors.IsNotFound))
		kept, err := policy(ctx, tb)()
		Expect(err).NotTo(HaveOccurred())
		Expect(kept.ResourceVersion).To(Equal(foreign.ResourceVersion), "the NetworkPolicy of somebody else must not change")
	})
})
