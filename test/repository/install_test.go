package repository

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// installations returns the objects that `kubectl apply -k deploy/<controller>` applies, for each controller that there is.
func installations(t *testing.T) map[string][]unstructured.Unstructured {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("run the tests by `make test`, which builds the kubectl that they need")
	}
	bases, err := filepath.Glob("../../deploy/*/kustomization.yaml")
	if err != nil || len(bases) == 0 {
		t.Fatalf("no controller can be installed: %v", err)
	}
	rendered := map[string][]unstructured.Unstructured{}
	for _, file := range append(bases, "../../deploy/scheduler/native/kustomization.yaml", "../../deploy/scheduler/volcano/kustomization.yaml") {
		base := filepath.Dir(file)
		manifests, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "kustomize", base).Output()
		if err != nil {
			t.Fatalf("rendering %s: %v", base, err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
		for {
			var object unstructured.Unstructured
			if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("rendering %s: %v", base, err)
			}
			rendered[filepath.Base(base)] = append(rendered[filepath.Base(base)], object)
		}
	}
	return rendered
}

// A webhook needs a certificate and a Service, and what it has to admit is refused while any of them is not as it should be.
func TestInstallationHasNoWebhook(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Deployment", "NetworkPolicy",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", // the API server carries them out by itself
	}
	for controller, objects := range installations(t) {
		for _, object := range objects {
			called := controller == "volcano" && object.GetKind() == "Service" // where Volcano's scheduler asks, which works without
			if !called && !slices.Contains(allowed, object.GetKind()) {
				t.Errorf("the installation of %s has the %s %s", controller, object.GetKind(), object.GetName())
			}
			if strategy, _, _ := unstructured.NestedString(object.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
				t.Errorf("the CRD %s of %s needs a webhook to convert", object.GetName(), controller)
			}
		}
	}
}

// What the API server's garbage collector deletes with a job or a TensorBoard cannot be left behind. A right to create something else, such as
// an autoscaler, would be a reason to look who deletes it.
func TestControllersCreateOnlyWhatGoesWithItsOwner(t *testing.T) {
	t.Parallel()
	for controller, objects := range installations(t) {
		created := map[string]bool{}
		for _, object := range objects {
			_, ofUsers := object.GetLabels()["rbac.authorization.k8s.io/aggregate-to-edit"]
			if kind := object.GetKind(); ofUsers || kind != "Role" && kind != "ClusterRole" {
				continue
			}
			var role rbacv1.ClusterRole // a Role has the same rules
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					if slices.Contains(rule.Verbs, "create") || slices.Contains(rule.Verbs, "*") {
						created[resource] = true
					}
				}
			}
		}
		want := []string{"events", "leases", "pods", "services"}
		switch controller {
		case "deepspeed": // whose workers share a key
			want = append(want, "podgroups", "secrets")
		case "pytorch", "tensorflow": // whose jobs may own a TensorBoard
			want = append(want, "podgroups", "tensorboards")
		case "native": // whose classes of priority, a hundred at most, stay
			want = []string{"events", "leases", "podgroups", "priorityclasses"}
		case "volcano":
			want = []string{"events", "leases", "podgroups", "priorityclasses", "queues"}
		case "tensorboard": // which tells its sidecar by one what to fetch
			want = append(want, "configmaps", "podgroups")
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(created)); !slices.Equal(got, want) {
			t.Errorf("%s may create %q, want %q", controller, got, want)
		}
	}
}

// The configuration of Volcano's scheduler names the Service by which it reaches the controller.
func TestVolcanoFindsTheController(t *testing.T) {
	t.Parallel()
	configuration, err := os.ReadFile("../../deploy/scheduler/volcano/conf/volcano-scheduler.conf")
	if err != nil {
		t.Fatal(err)
	}
	services := 0
	for _, object := range installations(t)["volcano"] {
		if object.GetKind() == "Service" {
			services++
			if url := "http://" + object.GetName() + "." + object.GetNamespace() + ".svc\n"; !bytes.Contains(configuration, []byte(url)) {
				t.Errorf("%s is not in the configuration", url)
			}
		}
	}
	if services != 1 {
		t.Errorf("there are %d services, want 1", services)
	}
}
