package test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
)

var _ = Describe("A job whose pods lose their attempt label in admission", func() {
	It("reports this, and runs when admission no longer removes the label", func(ctx context.Context) {
		namespace := cluster.NewNamespace(ctx)
		stop := removeAttemptLabel(ctx, namespace)
		job := cluster.Create(ctx, namespace)
		reason := func() string { return cluster.Get(ctx, job).Status.Reason }
		Eventually(ctx, reason).Should(Equal(batchv1beta1.ReasonAdmissionChangedPod))
		initialized := integration.Condition(job, batchv1beta1.ConditionInitialized)
		Expect(initialized.Message).To(ContainSubstring("batch.tensorstack.dev/attempt is missing"))
		tries := func() int { return len(cluster.Writes.In(namespace, "/pods")) }
		Eventually(ctx, tries).Should(BeNumerically(">=", 4), "the controller creates a pod, deletes it and creates another")
		Expect(cluster.Get(ctx, job).Status.Reason).To(Equal(batchv1beta1.ReasonAdmissionChangedPod))
		Expect(cluster.EventReasons(ctx, job)).To(ConsistOf(batchv1beta1.ReasonAdmissionChangedPod))

		stop()
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
	})
})

// removeAttemptLabel creates an admission policy by which the API server removes the attempt label from new pods in a
// namespace. The returned function deletes the policy.
func removeAttemptLabel(ctx context.Context, namespace string) (stop func()) {
	GinkgoHelper()
	api, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	admission, err := api.ServerResourcesForGroupVersion(admissionv1.SchemeGroupVersion.String())
	Expect(err).NotTo(HaveOccurred())
	if !slices.ContainsFunc(admission.APIResources, func(r metav1.APIResource) bool {
		return r.Kind == "MutatingAdmissionPolicy"
	}) {
		Skip("this Kubernetes has no MutatingAdmissionPolicy in admissionregistration.k8s.io/v1")
	}
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{
					Expression: `[JSONPatch{op: "remove", path: "/metadata/labels/batch.tensorstack.dev~1attempt"}]`,
				},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name},
	}
	Expect(cluster.Client.Create(ctx, policy)).To(Succeed())
	Expect(cluster.Client.Create(ctx, binding)).To(Succeed())
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "probe", Labels: map[string]string{batchv1beta1.LabelAttempt: "0"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	attempt := func() (string, error) {
		created := probe.DeepCopy()
		err := cluster.Client.Create(ctx, created, client.DryRunAll)
		return created.Labels[batchv1beta1.LabelAttempt], err
	}
	Eventually(ctx, attempt).Should(BeEmpty())
	return func() {
		GinkgoHelper()
		Expect(cluster.Client.Delete(ctx, binding)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
	}
}
