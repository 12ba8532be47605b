package test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// rendered returns the objects that `kubectl apply -k deploy/pytorch` applies.
func rendered(ctx context.Context) []unstructured.Unstructured {
	kubectl := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", "../../deploy/pytorch")
	manifests, err := kubectl.Output()
	Expect(err).NotTo(HaveOccurred())
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, object)
	}
}

var _ = Describe("The installation", func() {
	It("has no webhook and no certificate, of which one could fail", func(ctx context.Context) {
		kinds := map[string]bool{}
		for _, object := range rendered(ctx) {
			kinds[object.GetKind()] = true
			conversion, _, err := unstructured.NestedString(object.Object, "spec", "conversion", "strategy")
			Expect(err).NotTo(HaveOccurred())
			Expect(conversion).To(BeElementOf("", "None"), "the CRD needs no webhook either")
		}
		Expect(kinds).To(And(HaveLen(8), HaveKey("Namespace"), HaveKey("CustomResourceDefinition"), HaveKey("ServiceAccount"),
			HaveKey("ClusterRole"), HaveKey("ClusterRoleBinding"), HaveKey("Role"), HaveKey("RoleBinding"), HaveKey("Deployment")))
	})

	It("lets the controller create nothing that it would have to delete again, such as an autoscaler or a pod group", func(ctx context.Context) {
		created := map[string]bool{}
		for _, object := range rendered(ctx) {
			_, ofUsers := object.GetLabels()["rbac.authorization.k8s.io/aggregate-to-edit"]
			if kind := object.GetKind(); ofUsers || kind != "ClusterRole" && kind != "Role" {
				continue
			}
			var role rbacv1.ClusterRole // a Role has the same rules
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)).To(Succeed())
			for _, rule := range role.Rules {
				Expect(rule.Verbs).NotTo(ContainElement("*"))
				if slices.Contains(rule.Verbs, "create") {
					for _, resource := range rule.Resources {
						created[resource] = true
					}
				}
			}
		}
		Expect(created).To(Equal(map[string]bool{"pods": true, "services": true, "events": true, "leases": true}))
	})
})
