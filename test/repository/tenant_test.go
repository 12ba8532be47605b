package repository

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/test/internal/manifests"
)

// tenant has the objects of a tenant of a shared cluster.
type tenant struct {
	objects []unstructured.Unstructured
	// labels are the labels of the tenant's namespace, as the API server completes them.
	labels labels.Set
	// queue selects the namespaces of the tenant's Queue.
	queue labels.Selector
}

// tenantOf returns the objects that a copy of examples/install/tenant with another namespace creates.
func tenantOf(t *testing.T, namespace string) tenant {
	t.Helper()
	folder := filepath.Join(t.TempDir(), namespace)
	if err := os.CopyFS(folder, os.DirFS("../../examples/install/tenant")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "kustomization.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.Replace(content, []byte("\nnamespace: team-b\n"), []byte("\nnamespace: "+namespace+"\n"), 1)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	created := tenant{objects: manifests.Printed(t, manifests.Program(t, "kubectl"), "kustomize", folder)}
	for _, object := range created.objects {
		switch object.GetKind() {
		case "Namespace":
			created.labels = labels.Merge(object.GetLabels(), labels.Set{corev1.LabelMetadataName: object.GetName()})
		case "Queue":
			object.SetNamespace("") // kustomize does not know that Queues are cluster-scoped
			created.queue = selector(t, as[schedulerv1beta1.Queue](t, object).Spec.NamespaceSelector)
		}
	}
	if created.labels[corev1.LabelMetadataName] != namespace || created.queue == nil {
		t.Fatalf("the example creates the namespace %q, want %s, and must create a Queue",
			created.labels[corev1.LabelMetadataName], namespace)
	}
	return created
}

// as converts an object to its Go type.
func as[T any](t *testing.T, object unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		t.Fatal(err)
	}
	return typed
}

// selector converts a selector. A selector that is not set selects nothing.
func selector(t *testing.T, from *metav1.LabelSelector) labels.Selector {
	t.Helper()
	converted, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

// TestASecondTenantTakesNothingFromTheFirst creates two tenants from examples/install/tenant. The objects of the second
// tenant must not replace objects of the first one, or objects of examples/install/tenant-policies.
func TestASecondTenantTakesNothingFromTheFirst(t *testing.T) {
	t.Parallel()
	first, second := tenantOf(t, "team-b"), tenantOf(t, "team-c")
	exists := map[string]bool{}
	for _, object := range append(first.objects, manifests.Kustomized(t, "examples/install/tenant-policies")...) {
		exists[manifests.ID(object)] = true
	}
	for _, object := range second.objects {
		if exists[manifests.ID(object)] {
			t.Errorf("the second tenant replaces %s", manifests.ID(object))
		}
	}
	if !first.queue.Matches(first.labels) || first.queue.Matches(second.labels) {
		t.Errorf("the Queue of the first tenant selects %s, want only its own namespace", first.queue)
	}
	if !second.queue.Matches(second.labels) || second.queue.Matches(first.labels) {
		t.Errorf("the Queue of the second tenant selects %s, want only its own namespace", second.queue)
	}
}

// TestAllPoliciesOfTenantsApplyToEachTenant checks the bindings of examples/install/tenant-policies.
func TestAllPoliciesOfTenantsApplyToEachTenant(t *testing.T) {
	t.Parallel()
	first, second := tenantOf(t, "team-b"), tenantOf(t, "team-c")
	isBound := map[string]bool{}
	var policies []string
	for _, object := range manifests.Kustomized(t, "examples/install/tenant-policies") {
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy":
			policies = append(policies, object.GetName())
		case "ValidatingAdmissionPolicyBinding":
			binding := as[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, object).Spec
			selected := selector(t, binding.MatchResources.NamespaceSelector)
			isBound[binding.PolicyName] = selected.Matches(first.labels) && selected.Matches(second.labels)
			if system := (labels.Set{corev1.LabelMetadataName: metav1.NamespaceSystem}); selected.Matches(system) {
				t.Errorf("the binding %s selects the namespace %s", object.GetName(), metav1.NamespaceSystem)
			}
		}
	}
	if len(policies) == 0 {
		t.Error("there are no policies")
	}
	for _, policy := range policies {
		if !isBound[policy] {
			t.Errorf("the policy %s does not apply to the namespaces of both tenants", policy)
		}
	}
}
