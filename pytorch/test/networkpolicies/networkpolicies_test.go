// Package networkpolicies runs the pytorch-controller with --network-policies against a real API server. The controller
// has the permissions of the component config/networkpolicies. No network plugin enforces the NetworkPolicies here.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: job}
spec:
  replicaSpecs:
  - {type: worker, replicas: 2, template: {spec: {containers: [{name: pytorch, image: training}]}}}
`

var policies = network.Policies{Enabled: true, AllowedNamespaces: &metav1.LabelSelector{
	MatchLabels: map[string]string{corev1.LabelMetadataName: "monitoring"},
}}

var cluster = &integration.Cluster[*v1beta1.PyTorchTrainingJob]{
	Controller: pytorch.Controller(), Namespace: "t9k-pytorch", Valid: valid,
	ConfigFolder: "../../config", NetworkPolicies: policies,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

// wanted returns the spec that the NetworkPolicy of each job must have.
func wanted() networkingv1.NetworkPolicySpec {
	return controller.NetworkPolicySpec("PyTorchTrainingJob", "job", policies, nil)
}

// get reads the NetworkPolicy of a job.
func get(ctx context.Context, job *v1beta1.PyTorchTrainingJob) (*networkingv1.NetworkPolicy, error) {
	policy := &networkingv1.NetworkPolicy{}
	return policy, cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), policy)
}

var _ = Describe("A job of a controller with --network-policies", func() {
	It("has its NetworkPolicy before its first pod", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		policy, err := get(ctx, job)
		Expect(err).NotTo(HaveOccurred())
		Expect(policy.Spec).To(Equal(wanted()))
		Expect(metav1.IsControlledBy(policy, job)).To(BeTrue(), "it is deleted with the job")
		Expect(cluster.Pod(ctx, job, "job-worker-0").Labels).To(And(
			HaveKeyWithValue(batchv1beta1.LabelJobName, "job"),
			HaveKeyWithValue(batchv1beta1.LabelJobKind, "PyTorchTrainingJob"),
		), "it selects the pods of the job")

		writes := cluster.Writes.In(job.Namespace, "/")
		of := func(resource string) int {
			return slices.IndexFunc(writes, func(write string) bool { return strings.HasSuffix(write, resource) })
		}
		Expect(of("/networkpolicies")).To(BeNumerically("<", of("/pods")), "%q", writes)
		Expect(cluster.Writes.In(job.Namespace, "/networkpolicies")).To(HaveLen(1))
	})

	It("recreates its NetworkPolicy if somebody deletes it", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		first, err := get(ctx, job)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Client.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, func() (*networkingv1.NetworkPolicy, error) { return get(ctx, job) }).Should(And(
			HaveField("UID", Not(Equal(first.UID))), HaveField("Spec", wanted())))
	})

	It("restores its NetworkPolicy if somebody changes it", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		opened, err := get(ctx, job)
		Expect(err).NotTo(HaveOccurred())
		before := opened.DeepCopy()
		opened.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		opened.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{}
		opened.Spec.PolicyTypes = append(opened.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		opened.Spec.PodSelector.MatchLabels["no"] = "pod"
		opened.Annotations = map[string]string{"note": "of a user"}
		Expect(cluster.Client.Patch(ctx, opened, client.MergeFrom(before))).To(Succeed())
		Eventually(ctx, func() (*networkingv1.NetworkPolicy, error) { return get(ctx, job) }).Should(And(
			HaveField("UID", before.UID), HaveField("Spec", wanted()), HaveField("Annotations", opened.Annotations)))
	})

	It("restores its NetworkPolicy if somebody removes the labels of the controller", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		hidden, err := get(ctx, job)
		Expect(err).NotTo(HaveOccurred())
		before := hidden.DeepCopy()
		hidden.Labels = nil
		hidden.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		Expect(cluster.Client.Patch(ctx, hidden, client.MergeFrom(before))).To(Succeed())
		Eventually(ctx, func() (*networkingv1.NetworkPolicy, error) { return get(ctx, job) }).Should(And(
			HaveField("Labels", before.Labels), HaveField("Spec", wanted())))
	})

	It("has no pods while a NetworkPolicy that is not its own has its name", func(ctx context.Context) {
		foreign := &networkingv1.NetworkPolicy{}
		foreign.Namespace, foreign.Name = cluster.NewNamespace(ctx), "job"
		Expect(cluster.Client.Create(ctx, foreign)).To(Succeed())
		job := cluster.Create(ctx, foreign.Namespace)
		Eventually(ctx, func() metav1.Condition {
			return integration.Condition(cluster.Get(ctx, job), batchv1beta1.ConditionInitialized)
		}).Should(And(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", batchv1beta1.ReasonNameConflict),
			HaveField("Message", ContainSubstring("the job needs networkpolicy job, but one exists that is not the job's"))))
		Expect(cluster.PodNames(ctx, job)).To(BeEmpty())
		kept, err := get(ctx, job)
		Expect(err).NotTo(HaveOccurred())
		Expect(kept.ResourceVersion).To(Equal(foreign.ResourceVersion), "the NetworkPolicy of another owner does not change")

		Expect(cluster.Client.Delete(ctx, foreign)).To(Succeed())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
	})
})
