package upgrade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/kit/controlplane"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // the tests report errors
	os.Exit(m.Run())
}

// previous returns a folder with the source of the previous version, and the name of the version.
func previous(t *testing.T) (folder, revision string) {
	t.Helper()
	folder = t.TempDir()
	revision, err := WritePrevious(t.Context(), repo, folder)
	if errors.Is(err, ErrSkipped) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder, revision
}

// TestStoredObjectsSurvive checks that the objects of the previous version are unchanged after an upgrade, and that
// clients can write them again. The clients are an untyped one, and one with the types of this version. The objects
// are the examples of the previous version and objects of testdata. Their status has all fields.
func TestStoredObjectsSurvive(t *testing.T) {
	t.Parallel()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("run the tests with `make test`, which builds the API server that they need")
	}
	before, revision := previous(t)
	c := startAPIServer(t)
	crds := c.applyCRDs(t, before)
	manifests, err := filepath.Glob(filepath.Join(before, "examples/*/*.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("the previous version has no example: %v", err)
	}
	manifests = append(manifests, "testdata/podgroup.yaml") // only jobs create PodGroups: no example has one
	if accepted[revision] != nil {
		manifests = append(manifests, "testdata/unlimited.yaml", "testdata/restarting.yaml")
	}
	for _, manifest := range manifests {
		c.kubectl(t, "apply", "-f", manifest)
	}
	stored := map[schema.GroupVersionKind][]unstructured.Unstructured{}
	for gvk, crd := range crds {
		stored[gvk] = c.list(t, gvk)
		for i := range stored[gvk] {
			c.setStatus(t, &stored[gvk][i], full(crd, i))
		}
	}

	for gvk := range c.applyCRDs(t, repo) {
		for _, want := range stored[gvk] {
			t.Run(gvk.Kind+" "+want.GetName(), func(t *testing.T) {
				key := client.ObjectKeyFromObject(&want)
				compare := func(what string) *unstructured.Unstructured {
					t.Helper()
					got := &unstructured.Unstructured{}
					got.SetGroupVersionKind(gvk)
					if err := c.client.Get(t.Context(), key, got); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(content(&want), content(got)); diff != "" {
						t.Errorf("the object has changed after it was %s (-before +after):\n%s", what, diff)
					}
					return got
				}

				if err := c.client.Update(t.Context(), compare("read")); err != nil {
					t.Errorf("an update without changes is rejected: %v", err)
				}
				compare("updated")

				object := c.typed(t, gvk)
				if err := c.client.Get(t.Context(), key, object); err != nil {
					t.Fatal(err)
				}
				if err := c.client.Status().Update(t.Context(), object); err != nil {
					t.Errorf("an update of the status with the typed client is rejected: %v", err)
				}
				compare("updated in its status")
				annotated := object.DeepCopyObject().(client.Object)
				annotated.SetAnnotations(map[string]string{"by": "the test"})
				if err := c.client.Patch(t.Context(), annotated, client.MergeFrom(object)); err != nil {
					t.Errorf("a patch is rejected: %v", err)
				}
				compare("patched")
			})
		}
	}
}

// TestJobsBeyondTheLimitsAreFound runs the command of docs/contribute/threat-model.md that finds jobs beyond the limits
// of this version.
func TestJobsBeyondTheLimitsAreFound(t *testing.T) {
	t.Parallel()
	before, revision := previous(t)
	if accepted[revision] == nil {
		t.Skip("the previous version already has the limits")
	}
	c := startAPIServer(t)
	c.applyCRDs(t, before)
	c.kubectl(t, "apply", "-f", "testdata/unlimited.yaml", "-f", filepath.Join(before, "examples/pytorch/plain.yaml"))
	c.applyCRDs(t, repo)
	command := exec.CommandContext(t.Context(), "sh", "-c", `
kubectl get training -A -o yaml | sed '/^ *resourceVersion:/d' |
  kubectl create --dry-run=server -f - 2>&1 | grep 'is invalid'
`)
	path := os.Getenv("KUBEBUILDER_ASSETS") + ":" + os.Getenv("PATH")
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+path)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	const want = `"unlimited" is invalid: [spec.replicaSpecs[0].template.spec.tolerations: ` +
		`Too many: 65: must have at most 64 items`
	if got := strings.TrimSpace(string(output)); !strings.Contains(got, want) || strings.Contains(got, "\n") {
		t.Errorf("the command prints\n%s\nwant one line that contains\n%s", got, want)
	}
}

// apiServer is an API server on which the tests install CRDs.
type apiServer struct {
	config     *rest.Config
	client     client.Client
	kubeconfig string
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	environment, err := controlplane.StartAPIServer(func() *envtest.Environment { return &envtest.Environment{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apiextensionsv1.AddToScheme, pytorchv1beta1.AddToScheme, tensorflowv1beta1.AddToScheme, deepspeedv1beta1.AddToScheme,
		tensorboardv1beta1.AddToScheme, schedulerv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &apiServer{config: environment.Config, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	// With strict validation, a field that the API server would drop is an error.
	if s.client, err = client.New(environment.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	s.client = client.WithFieldValidation(s.client, "Strict")
	if err := os.WriteFile(s.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// kubectl runs kubectl as a user would.
func (s *apiServer) kubectl(t *testing.T, args ...string) {
	t.Helper()
	if err := s.try(t, args...); err != nil {
		t.Fatal(err)
	}
}

func (s *apiServer) try(t *testing.T, args ...string) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// applyCRDs applies the CRDs of a source tree, waits until they are served, and returns them by kind.
func (s *apiServer) applyCRDs(
	t *testing.T, source string,
) map[schema.GroupVersionKind]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(source, "*/config/crd/*_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var applied []*apiextensionsv1.CustomResourceDefinition
	crds := map[schema.GroupVersionKind]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		crd := readCRD(t, file)
		for _, version := range crd.Spec.Versions {
			crds[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = crd
		}
		err := s.try(t, "apply", "-f", file)
		switch {
		case err == nil:
		case source != repo && strings.Contains(err.Error(), "estimated rule cost exceeds budget"):
			t.Skipf("this Kubernetes rejects the CEL rules of the previous version as too expensive: %v", err)
		default:
			t.Fatal(err)
		}
		applied = append(applied, crd)
	}
	if len(crds) == 0 {
		t.Fatalf("%s has no CRD", source)
	}
	if err := envtest.WaitForCRDs(s.config, applied,
		envtest.CRDInstallOptions{MaxTime: time.Minute, PollInterval: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return crds
}

// list returns the objects of a kind. At least one must exist.
func (s *apiServer) list(t *testing.T, gvk schema.GroupVersionKind) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := s.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		t.Errorf("no %s exists, want at least one", gvk.Kind)
	}
	return list.Items
}

func (s *apiServer) setStatus(t *testing.T, object *unstructured.Unstructured, status any) {
	t.Helper()
	object.Object["status"] = status
	if err := s.client.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("the status of %s %s is rejected: %v", object.GetKind(), object.GetName(), err)
	}
}

func (s *apiServer) typed(t *testing.T, gvk schema.GroupVersionKind) client.Object {
	t.Helper()
	object, err := s.client.Scheme().New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	return object.(client.Object)
}

// full returns a status with all fields of the first version of a CRD. The variant selects a value of each enum.
func full(crd *apiextensionsv1.CustomResourceDefinition, variant int) any {
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	return value(&status, variant)
}

func value(schema *apiextensionsv1.JSONSchemaProps, variant int) any {
	switch {
	case len(schema.Enum) > 0:
		return strings.Trim(string(schema.Enum[variant%len(schema.Enum)].Raw), `"`)
	case schema.Type == "object" && schema.AdditionalProperties != nil:
		return map[string]any{"text": value(schema.AdditionalProperties.Schema, variant)}
	case schema.Type == "object":
		object := map[string]any{}
		for name, property := range schema.Properties {
			object[name] = value(&property, variant)
		}
		return object
	case schema.Type == "array":
		return []any{value(schema.Items.Schema, variant)}
	case schema.Type == "boolean":
		return true
	case schema.Type == "string" && schema.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case schema.XIntOrString: // a quantity: Go writes a string
		return "1"
	case schema.Type == "string":
		return "text"
	default: // a number
		least := int64(1)
		if schema.Minimum != nil {
			least = max(least, int64(*schema.Minimum))
		}
		return least
	}
}

// content returns the spec and the status of an object without nulls and empty maps. For all fields of this API, a
// null or an empty map means the same as an unset field.
func content(object *unstructured.Unstructured) map[string]any {
	return map[string]any{"spec": pruned(object.Object["spec"]), "status": pruned(object.Object["status"])}
}

func pruned(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, v := range value {
			if v := pruned(v); v != nil {
				kept[name] = v
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, v := range value {
			kept[i] = pruned(v)
		}
		return kept
	default:
		return value
	}
}
