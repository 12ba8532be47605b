package upgrade

import (
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	oldVersion = "v1beta1"
	newVersion = "v1"
)

var takesRoad = flag.Bool("road", false, "take the road to v1, which lasts a minute")

// TestRoadToV1 takes the steps of docs/contribute/api-versions.md#the-road-to-v1 with the CRDs and the examples of this
// version. No object loses a field in any step.
func TestRoadToV1(t *testing.T) {
	if !*takesRoad {
		t.Skip("a stage of test/stages/stages.yaml runs the test with -road")
	}
	t.Parallel()
	r := newRoad(t)
	r.applyFields(t, "moved", oldVersion, "backoffLimit: 7")
	r.applyFields(t, "left", oldVersion, "backoffLimit: 7")
	r.applyFields(t, "late", oldVersion, "backoffLimit: 7")

	r.step(t, "v1 is served and v1beta1 is stored", storing(oldVersion))
	r.checkObjects(t, oldVersion, newVersion)
	r.writeObjects(t, newVersion)
	r.checkObjects(t, oldVersion, newVersion)

	r.step(t, "v1 is stored", storing(newVersion))
	r.checkObjects(t, oldVersion, newVersion)
	r.writeObjects(t, newVersion)
	r.step(t, "the release that stores v1 is rolled back", storing(oldVersion))
	r.checkObjects(t, oldVersion, newVersion)
	r.writeObjects(t, oldVersion)
	r.step(t, "v1 is stored again", storing(newVersion))
	r.checkObjects(t, oldVersion, newVersion)
	r.checkStoredVersions(t, oldVersion, newVersion)
	r.applyFields(t, "moved", newVersion, "backoffLimit: 7")
	if err := r.apply(t, only(newVersion)); err == nil || !strings.Contains(err.Error(), "status.storedVersions") {
		t.Errorf("v1beta1 can be removed although objects are stored in it: %v", err)
	}
	const named = "Secret pytorch owned batch.tensorstack.dev/v1beta1"
	if got := r.shell(t, `
kubectl get pods,services,secrets,networkpolicies -A -o jsonpath='{range .items[*]}{.kind} {.metadata.namespace} {.metadata.name} {.metadata.ownerReferences[*].apiVersion}{"\n"}{end}' | grep tensorstack.dev/v1beta1
`); got != named {
		t.Errorf("the objects whose owners are named in v1beta1 are\n%s\nwant\n%s", got, named)
	}

	before := r.resourceVersions(t)
	r.rewrite(t)
	after := r.resourceVersions(t)
	for name := range before {
		if after[name] == before[name] && name != "PyTorchTrainingJob default/moved" { // this job is stored in v1 already
			t.Errorf("%s is not written again", name)
		}
	}
	r.rewrite(t)
	if diff := cmp.Diff(after, r.resourceVersions(t)); diff != "" {
		t.Errorf("objects that are stored in v1 are written again (-before +after):\n%s", diff)
	}
	r.writeObjects(t, oldVersion)
	r.checkObjects(t, oldVersion, newVersion)
	r.applyFields(t, "late", oldVersion, "backoffLimit: 8")

	r.shell(t, `
kubectl get crd -o name | grep tensorstack.dev | xargs -I CRD kubectl patch CRD --subresource=status --type=merge -p '{"status":{"storedVersions":["v1"]}}'
`)
	r.checkStoredVersions(t, newVersion)

	r.step(t, "v1beta1 is not served", withdrawn)
	r.checkObjects(t, newVersion)
	r.step(t, "v1beta1 is removed", only(newVersion))
	r.checkObjects(t, newVersion)
	r.writeObjects(t, newVersion)
	r.checkObjects(t, newVersion)
	r.checkStoredVersions(t, newVersion)

	// A manager removes a field by applying a manifest without the field. The API server rejects the manifest if
	// metadata.managedFields of the object refers to a version that the CRD no longer has.
	for _, name := range []string{"moved", "left"} {
		r.applyFields(t, name, newVersion, "cleanUpPolicy: All")
		if got := r.backoffLimit(t, name); got != batchv1beta1.DefaultBackoffLimit {
			t.Errorf("backoffLimit of job %s is %d after it was removed from the manifest, want the default", name, got)
		}
	}
	err := r.tryApplyFields(t, "late", newVersion, "cleanUpPolicy: All")
	if err == nil || !strings.Contains(err.Error(), "invalid group/version: batch.tensorstack.dev/v1beta1") {
		t.Errorf("a manager of v1beta1 is not reported: %v", err)
	}
}

// road is an API server with objects that it must keep.
type road struct {
	*apiServer
	crds []*apiextensionsv1.CustomResourceDefinition
	// want maps each kind in v1beta1 to its objects.
	want map[schema.GroupVersionKind][]unstructured.Unstructured
}

// newRoad starts an API server with the CRDs, the examples and an object that a job owns. The status of each object
// has all fields.
func newRoad(t *testing.T) *road {
	t.Helper()
	r := &road{apiServer: startAPIServer(t), want: map[schema.GroupVersionKind][]unstructured.Unstructured{}}
	crds := r.applyCRDs(t, repo)
	// Examples of different frameworks can have objects of the same name, so each folder has a namespace.
	for _, folder := range []string{"pytorch", "tensorflow", "deepspeed", "tensorboard", "scheduler"} {
		r.kubectl(t, "create", "namespace", folder)
		r.kubectl(t, "apply", "--namespace="+folder, "-f", filepath.Join(repo, "examples", folder))
	}
	r.kubectl(t, "apply", "-f", "testdata/podgroup.yaml")
	for gvk, crd := range crds {
		r.crds = append(r.crds, crd)
		r.want[gvk] = r.list(t, gvk)
		for i := range r.want[gvk] {
			r.setStatus(t, &r.want[gvk][i], full(crd, i))
		}
	}
	job := r.want[jobKind(oldVersion)][0]
	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.GetNamespace(), Name: "owned",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&job, jobKind(oldVersion))},
	}}
	untyped, err := client.New(r.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := untyped.Create(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	return r
}

func jobKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "batch.tensorstack.dev", Version: version, Kind: "PyTorchTrainingJob"}
}

type crdVersion = apiextensionsv1.CustomResourceDefinitionVersion

// storing returns a function that turns the only version of a CRD into two: v1 and v1beta1. The CRD serves both
// versions. The parameter version is the one that the CRD stores. v1beta1 has no descriptions, because the
// descriptions of both versions would make the CRD too large for kubectl apply.
func storing(version string) func(crdVersion) []crdVersion {
	return func(v crdVersion) []crdVersion {
		old, next := *v.DeepCopy(), *v.DeepCopy()
		next.Name = newVersion
		old.Storage, next.Storage = version == oldVersion, version == newVersion
		withoutDescriptions(old.Schema.OpenAPIV3Schema)
		return []crdVersion{next, old}
	}
}

// withdrawn returns the versions of a CRD that stores v1 and no longer serves v1beta1.
func withdrawn(v crdVersion) []crdVersion {
	versions := storing(newVersion)(v)
	versions[1].Served = false
	return versions
}

// only returns a function that renames the only version of a CRD to the given version.
func only(version string) func(crdVersion) []crdVersion {
	return func(v crdVersion) []crdVersion {
		v.Name = version
		return []crdVersion{v}
	}
}

func withoutDescriptions(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, property := range s.Properties {
		withoutDescriptions(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		withoutDescriptions(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		withoutDescriptions(s.AdditionalProperties.Schema)
	}
}

// step applies the CRDs with the result of the function versions. It waits until the API server serves these versions
// and uses the new storage version.
func (r *road) step(t *testing.T, what string, versions func(crdVersion) []crdVersion) {
	t.Helper()
	t.Log(what)
	if err := r.apply(t, versions); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	want := map[string]string{}
	for _, crd := range r.crds {
		all := versions(crd.Spec.Versions[0])
		storage := all[slices.IndexFunc(all, func(v crdVersion) bool { return v.Storage })].Name
		hash := sha256.Sum256([]byte(crd.Spec.Group + "/" + storage + "/" + crd.Spec.Names.Kind))
		for _, v := range all {
			if v.Served {
				want[v.Name+" "+crd.Spec.Names.Plural] = base64.StdEncoding.EncodeToString(hash[:8])
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		diff := cmp.Diff(want, r.served(t))
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: the API server does not serve the CRDs in time (-want +got):\n%s", what, diff)
		}
	}
}

// served maps the version and the name of each served resource to the hash of its storage version.
func (r *road) served(t *testing.T) map[string]string {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	api.UseLegacyDiscovery = true // aggregated discovery has no hashes
	_, lists, err := api.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, list := range lists {
		group, version, _ := strings.Cut(list.GroupVersion, "/")
		for _, resource := range list.APIResources {
			if strings.HasSuffix(group, "tensorstack.dev") && !strings.Contains(resource.Name, "/") {
				served[version+" "+resource.Name] = resource.StorageVersionHash
			}
		}
	}
	return served
}

// apply applies the CRDs with the result of the function versions. It uses kubectl apply, as users do with the
// manifests of a release.
func (r *road) apply(t *testing.T, versions func(crdVersion) []crdVersion) error {
	t.Helper()
	var manifests []byte
	for _, crd := range r.crds {
		changed := crd.DeepCopy()
		changed.Spec.Versions = versions(crd.Spec.Versions[0])
		changed.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		content, err := yaml.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(append(manifests, "---\n"...), content...)
	}
	file := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(file, manifests, 0o600); err != nil {
		t.Fatal(err)
	}
	return r.try(t, "apply", "-f", file)
}

// eachObject reads each object in a version. It passes the result, and the same object of r.want, to the function
// visit.
func (r *road) eachObject(t *testing.T, version string, visit func(got, want *unstructured.Unstructured)) {
	t.Helper()
	for gvk, objects := range r.want {
		for i := range objects {
			got := &unstructured.Unstructured{}
			got.SetGroupVersionKind(gvk.GroupKind().WithVersion(version))
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(&objects[i]), got); err != nil {
				t.Fatal(err)
			}
			visit(got, &objects[i])
		}
	}
}

// checkObjects checks that the spec and the status of all objects of r.want are unchanged in each of the versions.
func (r *road) checkObjects(t *testing.T, versions ...string) {
	t.Helper()
	for _, version := range versions {
		r.eachObject(t, version, func(got, want *unstructured.Unstructured) {
			if diff := cmp.Diff(content(want), content(got)); diff != "" {
				t.Errorf("%s %s has changed in %s (-before +after):\n%s", got.GetKind(), got.GetName(), version, diff)
			}
		})
	}
}

// writeObjects reads each object in a version, and writes its metadata and its status in the same version. Validation
// is strict, so that a field that the API server would drop is an error.
func (r *road) writeObjects(t *testing.T, version string) {
	t.Helper()
	r.eachObject(t, version, func(got, _ *unstructured.Unstructured) {
		got.SetAnnotations(map[string]string{"written": got.GetResourceVersion()})
		if err := r.client.Update(t.Context(), got); err != nil {
			t.Errorf("%s %s cannot be written in %s: %v", got.GetKind(), got.GetName(), version, err)
		}
		if err := r.client.Status().Update(t.Context(), got); err != nil {
			t.Errorf("the status of %s %s cannot be written in %s: %v", got.GetKind(), got.GetName(), version, err)
		}
	})
}

// rewrite writes each object again, with v1 in place of v1beta1. This includes its managedFields and ownerReferences.
func (r *road) rewrite(t *testing.T) {
	t.Helper()
	r.shell(t, `
kubectl get training -A -o json --show-managed-fields | sed 's|tensorstack.dev/v1beta1"|tensorstack.dev/v1"|' | kubectl replace -f -
`)
}

// resourceVersions returns the resource version of each object.
func (r *road) resourceVersions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for gvk := range r.want {
		for _, object := range r.list(t, gvk) {
			versions[gvk.Kind+" "+object.GetNamespace()+"/"+object.GetName()] = object.GetResourceVersion()
		}
	}
	return versions
}

// checkStoredVersions checks the versions in which objects might be stored, as the status of each CRD lists them.
func (r *road) checkStoredVersions(t *testing.T, want ...string) {
	t.Helper()
	for _, crd := range r.crds {
		got := &apiextensionsv1.CustomResourceDefinition{}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(crd), got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Status.StoredVersions); diff != "" {
			t.Errorf("unexpected storedVersions of %s (-want +got):\n%s", crd.Name, diff)
		}
	}
}

// applyFields applies a job with server-side apply, as a field manager that has the name of the job.
func (r *road) applyFields(t *testing.T, name, version, runPolicy string) {
	t.Helper()
	if err := r.tryApplyFields(t, name, version, runPolicy); err != nil {
		t.Fatal(err)
	}
}

func (r *road) tryApplyFields(t *testing.T, name, version, runPolicy string) error {
	t.Helper()
	manifest := fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/%s
kind: PyTorchTrainingJob
metadata: {name: %s}
spec:
  runPolicy: {%s}
  replicaSpecs: [{type: worker, template: {spec: {containers: [{name: pytorch, image: training}]}}}]
`, version, name, runPolicy)
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return r.try(t, "apply", "--server-side", "--namespace=default", "--field-manager="+name, "-f", file)
}

func (r *road) backoffLimit(t *testing.T, name string) int32 {
	t.Helper()
	job := &unstructured.Unstructured{}
	job.SetGroupVersionKind(jobKind(newVersion))
	if err := r.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, job); err != nil {
		t.Fatal(err)
	}
	limit, _, err := unstructured.NestedInt64(job.Object, "spec", "runPolicy", "backoffLimit")
	if err != nil {
		t.Fatal(err)
	}
	return int32(limit)
}

// shell runs commands of docs/contribute/api-versions.md and returns their output.
func (r *road) shell(t *testing.T, commands string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	// In the home directory, kubectl caches the versions that an API server serves. A new home directory has no cache.
	command.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig, "HOME="+t.TempDir(),
		"PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", commands, err, output)
	}
	return strings.TrimSpace(string(output))
}
