package train

import (
	"context"
	"encoding/json"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("kubectl train version", func() {
	// deploy creates a Deployment as the manifests of a controller contain it.
	deploy := func(ctx context.Context, n namespace, controller, version string) {
		GinkgoHelper()
		labels := map[string]string{"app.kubernetes.io/name": controller}
		Expect(api.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: string(n), Name: controller, Labels: map[string]string{"app.kubernetes.io/part-of": "tensorstack-jobs"},
			},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{ServiceAccountName: controller, Containers: []corev1.Container{
						{Name: "mesh", Image: "proxy:v1.2.3"}, {Name: "controller", Image: "tensorstack/" + controller + ":" + version},
					}},
				},
			},
		})).To(Succeed())
	}

	BeforeEach(func(ctx context.Context) {
		n := newNamespace(ctx)
		Eventually(ctx, func() (string, error) {
			out, _, err := n.train(ctx, "version")
			return out, err
		}).Should(And(ContainSubstring("PyTorchTrainingJob"), ContainSubstring("TensorFlowTrainingJob"),
			ContainSubstring("PodGroup, Queue")), "the API server publishes the schemas some time after its start")
	})

	It("prints the controllers and the kinds of the cluster to an administrator", func(ctx context.Context) {
		n := newNamespace(ctx)
		deploy(ctx, n, "pytorch-controller", "v0.1.0")
		out, errOut, err := n.train(ctx, "version")
		Expect(err).NotTo(HaveOccurred())
		Expect(errOut).To(BeEmpty())
		Expect(out).To(And(
			MatchRegexp(`(?m)^Client Version: \S+ \(revision \S+, Go \S+\)\nKubernetes Version: v1\.\d+\.\d+`),
			MatchRegexp(`(?m)^pytorch-controller +v0\.1\.0 +%s +PyTorchTrainingJob$`, n),
			MatchRegexp(`(?m)^scheduler-controller +not running +- +PodGroup, Queue$`),
		))
	})

	It("prints which versions a user may not read", func(ctx context.Context) {
		n := newNamespace(ctx)
		deploy(ctx, newNamespace(ctx), "pytorch-controller", "v0.1.0")
		out, errOut, err := n.train(ctx, "version", "--as", "alice")
		Expect(err).NotTo(HaveOccurred())
		Expect(errOut).To(MatchRegexp(`^Some versions are unknown: .* deployments.apps is forbidden: User "alice" .*\n$`))
		Expect(out).To(MatchRegexp(`(?m)^pytorch-controller +unknown +- +PyTorchTrainingJob$`))

		By("showing the controller of a namespace to a user with the role view there")
		// No controller aggregates the ClusterRole view here, so it is empty. The user gets a part of it instead.
		Expect(api.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: string(n), Name: "view"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
		})).To(Succeed())
		deploy(ctx, n, "tensorflow-controller", "v0.2.0")
		Eventually(ctx, func() (string, error) {
			out, _, err := n.train(ctx, "version", "--as", "alice")
			return out, err
		}).Should(And(
			MatchRegexp(`(?m)^pytorch-controller +unknown +- `),
			MatchRegexp(`(?m)^tensorflow-controller +v0\.2\.0 +%s +TensorFlowTrainingJob$`, n),
		))
	})

	It("warns if a kind lacks a field", Serial, func(ctx context.Context) {
		n := newNamespace(ctx)
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName("queues.scheduler.tensorstack.dev")
		Expect(api.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		const path = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
		status, _, err := unstructured.NestedMap(crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any),
			"schema", "openAPIV3Schema", "properties", "status")
		Expect(err).NotTo(HaveOccurred())
		patch := func(ctx context.Context, operation map[string]any) {
			GinkgoHelper()
			content, err := json.Marshal([]map[string]any{operation})
			Expect(err).NotTo(HaveOccurred())
			Expect(api.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, content))).To(Succeed())
		}
		warnings := func(ctx context.Context) ([]string, error) {
			out, _, err := n.train(ctx, "version", "-o", "json")
			var printed struct{ Warnings []string }
			return printed.Warnings, errors.Join(err, json.Unmarshal([]byte(out), &printed))
		}
		Expect(warnings(ctx)).To(BeEmpty())

		patch(ctx, map[string]any{"op": "remove", "path": path})
		DeferCleanup(func(ctx context.Context) {
			patch(ctx, map[string]any{"op": "add", "path": path, "value": status})
			Eventually(ctx, warnings).Should(BeEmpty())
		})
		Eventually(ctx, warnings).Should(ConsistOf("Queue lacks fields that kubectl train knows: status. They have no " +
			"effect until an administrator of the cluster upgrades the CRD of the scheduler-controller"))
	})
})
