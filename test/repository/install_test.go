package repository

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// controllers maps the name of each controller to the folder of its installation. The scheduler-controller has one
// installation for each engine, with the keys native and volcano.
func controllers(t *testing.T) map[string]string {
	t.Helper()
	folders := map[string]string{"native": "deploy/scheduler/native", "volcano": "deploy/scheduler/volcano"}
	for _, name := range unqueued(t) {
		folders[name] = "deploy/" + name
	}
	return folders
}

// program returns the path of a program in $KUBEBUILDER_ASSETS or in the folder bin.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, folder := range []string{os.Getenv("KUBEBUILDER_ASSETS"), "../../bin"} {
		if file, err := filepath.Abs(filepath.Join(folder, name)); err == nil && folder != "" {
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	t.Fatalf("%s is missing: run the tests with `make test`, which builds it", name)
	return ""
}

// kustomized returns the objects that `kubectl apply -k` applies for a folder of the repository.
func kustomized(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()
	return printed(t, program(t, "kubectl"), "kustomize", filepath.Join("../..", folder))
}

// printed returns the objects that a command prints.
func printed(t *testing.T, command string, args ...string) []unstructured.Unstructured {
	t.Helper()
	manifests, err := exec.CommandContext(t.Context(), command, args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%s %q: %v: %s", filepath.Base(command), args, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s %q: %v", filepath.Base(command), args, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// installations maps each key of controllers to the objects of that installation.
func installations(t *testing.T) map[string][]unstructured.Unstructured {
	t.Helper()
	rendered := map[string][]unstructured.Unstructured{}
	for controller, folder := range controllers(t) {
		rendered[controller] = kustomized(t, folder)
	}
	return rendered
}

// id returns kind, namespace and name of an object.
func id(object unstructured.Unstructured) string {
	return strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, "/")
}

// byID maps the ID of each object to the object. It reports an error if two objects have the same ID.
func byID(t *testing.T, objects []unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	named := map[string]map[string]any{}
	for _, object := range objects {
		if named[id(object)] != nil {
			t.Errorf("there are two objects %s", id(object))
		}
		named[id(object)] = object.Object
	}
	return named
}

// same reports an error unless want and got have the same objects, in any order. It shows how each object differs.
func same(t *testing.T, want, got []unstructured.Unstructured) {
	t.Helper()
	wanted, gotten := byID(t, want), byID(t, got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(gotten))); diff != "" {
		t.Errorf("unexpected objects (-want +got):\n%s", diff)
	}
	for key, object := range wanted {
		// Missing objects are already reported.
		if diff := cmp.Diff(object, gotten[key]); diff != "" && gotten[key] != nil {
			t.Errorf("unexpected %s (-want +got):\n%s", key, diff)
		}
	}
}

func TestInstallationOfAllHasExactlyTheObjectsOfEachController(t *testing.T) {
	t.Parallel()
	var each []unstructured.Unstructured
	for controller, objects := range installations(t) {
		if controller != "volcano" { // deploy/all has the other engine
			each = append(each, objects...)
		}
	}
	// If two controllers share an object, same reports that the object occurs twice. Removing one controller would break
	// the other.
	same(t, each, kustomized(t, "deploy/all"))
}

func TestInstallationHasExactlyItsAPIAndItsController(t *testing.T) {
	t.Parallel()
	for name, folder := range controllers(t) {
		api := "deploy/" + name + "/crd"
		if strings.HasPrefix(folder, "deploy/scheduler") {
			api = "deploy/scheduler/crd"
		}
		same(t, kustomized(t, folder), append(kustomized(t, api), kustomized(t, folder+"/controller")...))
	}
}

func TestInstallationIsRestrictedAndCanBeDrained(t *testing.T) {
	t.Parallel()
	for controller, objects := range installations(t) {
		found := map[string]int{}
		for _, object := range objects {
			found[object.GetKind()]++
			if object.GetKind() == "Namespace" && object.GetLabels()["pod-security.kubernetes.io/enforce"] != "restricted" {
				t.Errorf("the namespace %s of %s does not enforce restricted Pod Security", object.GetName(), controller)
			}
		}
		for _, kind := range []string{
			"Namespace", "ServiceAccount", "Deployment", "Role", "NetworkPolicy", "PodDisruptionBudget",
		} {
			if found[kind] != 1 {
				t.Errorf("%s has %d objects of kind %s, want 1", controller, found[kind], kind)
			}
		}
	}
}

func TestFlagsOfAKustomizationAreAppended(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string][]any{
		"deploy/pytorch":               {"--workers=64"},
		"deploy/tensorflow/namespaced": {"--namespace=$(POD_NAMESPACE)", "--workers=64"},
		"deploy/scheduler/volcano":     {"--engine=volcano", "--workers=64"},
	} {
		container := containerOf(t, onTop(t, folder, `
patches:
  - target: {kind: Deployment}
    patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--workers=64"}]'
`))
		if diff := cmp.Diff(any(want), container["args"]); diff != "" {
			t.Errorf("unexpected flags on top of %s (-want +got):\n%s", folder, diff)
		}
	}
}

// deploymentOf returns the one Deployment of an installation.
func deploymentOf(t *testing.T, objects []unstructured.Unstructured) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			found = append(found, object.Object)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d Deployments, want 1", len(found))
	}
	return found[0]
}

// containerOf returns the one container of the Deployment of an installation.
func containerOf(t *testing.T, objects []unstructured.Unstructured) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deploymentOf(t, objects), "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("there are %d containers: %v", len(containers), err)
	}
	return containers[0].(map[string]any)
}

// onTop returns the objects of a kustomization that a user writes on top of a folder of the repository. ROOT in the
// content stands for the path to the repository.
func onTop(t *testing.T, folder, content string) []unstructured.Unstructured {
	t.Helper()
	own := t.TempDir()
	path, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.Rel(own, path); err != nil {
		t.Fatal(err)
	}
	content = strings.ReplaceAll("resources: [ROOT/"+folder+"]\n"+content, "ROOT", path)
	if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return printed(t, program(t, "kubectl"), "kustomize", own)
}

func TestNamespacedInstallationHasNoClusterScopedObject(t *testing.T) {
	t.Parallel()
	for _, controller := range unqueued(t) {
		for _, object := range kustomized(t, "deploy/"+controller+"/namespaced") {
			if !slices.Contains([]string{
				"ServiceAccount", "Role", "RoleBinding", "Deployment", "NetworkPolicy", "PodDisruptionBudget",
			}, object.GetKind()) {
				t.Errorf("the installation of %s for one namespace has %s", controller, id(object))
			}
		}
	}
}

// TestInstallationHasNoWebhook checks the kinds of the installed objects. A webhook needs a certificate and a Service.
// If one of them does not work, the API server rejects all objects that the webhook must admit.
func TestInstallationHasNoWebhook(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
		"Deployment", "NetworkPolicy", "PodDisruptionBudget",
		// These policies need no webhook, because the API server itself evaluates them.
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
	for controller, objects := range installations(t) {
		for _, object := range objects {
			// The scheduler of Volcano calls this Service, but also works without it.
			called := controller == "volcano" && object.GetKind() == "Service"
			if !called && !slices.Contains(allowed, object.GetKind()) {
				t.Errorf("the installation of %s has the %s %s", controller, object.GetKind(), object.GetName())
			}
			if strategy, _, _ := unstructured.NestedString(object.Object, "spec", "conversion",
				"strategy"); strategy == "Webhook" {
				t.Errorf("the CRD %s of %s needs a conversion webhook", object.GetName(), controller)
			}
		}
	}
}

// TestControllersCreateOnlyOwnedKinds checks which kinds a controller can create. A job or TensorBoard owns the
// objects that a controller creates for it, so the garbage collector deletes them after the owner. If a controller
// also created objects without an owner, such as an autoscaler, somebody would have to delete them.
func TestControllersCreateOnlyOwnedKinds(t *testing.T) {
	t.Parallel()
	for controller, objects := range installations(t) {
		created := map[string]bool{}
		for _, rule := range rulesOfController(t, objects) {
			for _, resource := range rule.Resources {
				if slices.Contains(rule.Verbs, "create") || slices.Contains(rule.Verbs, "*") {
					created[resource] = true
				}
			}
		}
		want := []string{"events", "leases", "podgroups", "pods", "services"}
		if ownsTensorBoards(t, controller) {
			want = append(want, "tensorboards")
		}
		switch controller {
		case "deepspeed": // the Secret has the SSH key that the workers share
			want = append(want, "secrets")
		case "native": // nobody deletes PriorityClasses, but there are at most a hundred
			want = []string{"events", "leases", "podgroups", "priorityclasses"}
		case "volcano":
			want = []string{"events", "leases", "podgroups", "priorityclasses", "queues"}
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(created)); !slices.Equal(got, want) {
			t.Errorf("%s can create %q, want %q", controller, got, want)
		}
	}
}

// TestControllersReadNeitherSecretsNorConfigMaps checks that controllers have no permission to read Secrets or
// ConfigMaps. With such a permission, users who can create a job or a TensorBoard could read Secrets through the
// controller.
func TestControllersReadNeitherSecretsNorConfigMaps(t *testing.T) {
	t.Parallel()
	for controller, objects := range installations(t) {
		for _, rule := range rulesOfController(t, objects) {
			for _, resource := range rule.Resources {
				keepsSecrets := slices.Contains([]string{"secrets", "configmaps", "*"}, resource)
				if verbs := slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool {
					return verb == "create" || verb == "delete"
				}); keepsSecrets && len(verbs) > 0 {
					t.Errorf("%s has the verbs %q for %s, want only create and delete", controller, verbs, resource)
				}
			}
		}
	}
}

// rulesOfController returns the rules of all Roles and ClusterRoles of a controller. It leaves out ClusterRoles for
// users.
func rulesOfController(t *testing.T, objects []unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, object := range objects {
		_, ofUsers := object.GetLabels()["rbac.authorization.k8s.io/aggregate-to-edit"]
		if kind := object.GetKind(); ofUsers || kind != "Role" && kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules
}

// ownsTensorBoards reports whether the installation of a controller has the component for jobs that can own a
// TensorBoard.
func ownsTensorBoards(t *testing.T, controller string) bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, controller, "config/controller/kustomization.yaml"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Contains(content, []byte("deploy/base/tensorboards\n"))
}

// TestServiceMonitorsOfAllControllersCanBeCombined puts the components of all controllers on deploy/all. The
// components generate ConfigMaps for the parameters of the base. The user's kustomization generates a ConfigMap with
// the name controller, which must not conflict with the ConfigMaps of the components.
func TestServiceMonitorsOfAllControllersCanBeCombined(t *testing.T) {
	t.Parallel()
	want := kustomized(t, "deploy/all")
	content := "configMapGenerator: [{name: controller, literals: [a=b]}]\ncomponents:\n"
	for _, controller := range readVersions(t).Controllers() {
		want = append(want, kustomized(t, controller+"/config/servicemonitor")...)
		content += "  - ROOT/" + controller + "/config/servicemonitor\n"
	}
	same(t, want, without("ConfigMap", onTop(t, "deploy/all", content)))
}

// TestComponentsForNetworkPoliciesCanBeCombined puts the components of all controllers on deploy/all. Each component
// must add the flag --network-policies and the permissions only to its own controller.
func TestComponentsForNetworkPoliciesCanBeCombined(t *testing.T) {
	t.Parallel()
	content := "components:\n"
	for _, controller := range unqueued(t) {
		content += "  - ROOT/" + controller + "/config/networkpolicies\n"
	}
	for _, object := range onTop(t, "deploy/all", content) {
		controller := strings.TrimPrefix(strings.TrimSuffix(object.GetName(), "-controller"), "tensorstack-")
		var text string
		switch object.GetKind() {
		case "Deployment":
			text = "--network-policies"
		case "ClusterRole":
			text = "networkpolicies"
		default:
			continue
		}
		content, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if slices.Contains(unqueued(t), controller) {
			want = 1
		}
		if got := bytes.Count(content, []byte(`"`+text+`"`)); got != want {
			t.Errorf("%s has %q %d times, want %d", id(object), text, got, want)
		}
	}
}

// TestComponentsForSecureMetricsCanBeCombined puts the components of all controllers on deploy/all. Each component must
// change only its own controller, and add only the permissions that it needs.
func TestComponentsForSecureMetricsCanBeCombined(t *testing.T) {
	t.Parallel()
	type secured struct {
		Flags     int
		Endpoints []any
		Subjects  []any
		Role      any
		Reviews   []any
		Reads     []any
	}
	want, got := map[string]secured{}, map[string]*secured{}
	content := "components:\n"
	rule := func(group, resource string) any {
		return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{"create"}}
	}
	for _, controller := range readVersions(t).Controllers() {
		content += "  - ROOT/" + controller + "/config/servicemonitor\n  - ROOT/" + controller + "/config/securemetrics\n"
		got[controller] = &secured{}
		want[controller] = secured{
			Flags: 1,
			Endpoints: []any{map[string]any{
				"port": "metrics", "scheme": "https", "tlsConfig": map[string]any{"insecureSkipVerify": true},
				"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			}},
			Subjects: []any{map[string]any{
				"kind": "ServiceAccount", "name": controller + "-controller", "namespace": "t9k-" + controller,
			}},
			Role: "tensorstack-" + controller + "-metrics-auth",
			Reviews: []any{
				rule("authentication.k8s.io", "tokenreviews"), rule("authorization.k8s.io", "subjectaccessreviews"),
			},
			Reads: []any{map[string]any{"nonResourceURLs": []any{"/metrics"}, "verbs": []any{"get"}}},
		}
	}
	for _, object := range onTop(t, "deploy/all", content) {
		name := strings.TrimPrefix(object.GetName(), "tensorstack-")
		controller, part, _ := strings.Cut(name, "-")
		of, ok := got[controller]
		if !ok {
			continue
		}
		list := func(fields ...string) []any {
			found, _, _ := unstructured.NestedSlice(object.Object, fields...)
			return found
		}
		switch object.GetKind() + " " + part {
		case "Deployment controller":
			args := containerOf(t, []unstructured.Unstructured{object})["args"].([]any)
			for _, arg := range args {
				if arg == "--metrics-secure" {
					of.Flags++
				}
			}
		case "ServiceMonitor controller":
			of.Endpoints = list("spec", "endpoints")
		case "ClusterRoleBinding metrics-auth":
			of.Subjects = list("subjects")
			of.Role, _, _ = unstructured.NestedFieldNoCopy(object.Object, "roleRef", "name")
		case "ClusterRole metrics-auth":
			of.Reviews = list("rules")
		case "ClusterRole metrics-reader":
			of.Reads = list("rules")
		}
	}
	found := map[string]secured{}
	for controller, of := range got {
		found[controller] = *of
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("unexpected secure metrics (-want +got):\n%s", diff)
	}
}

// TestExampleOfSecureMetricsVerifiesTheCertificate checks that the Prometheus operator accepts the fields of the
// example, and that Prometheus verifies the certificate.
func TestExampleOfSecureMetricsVerifiesTheCertificate(t *testing.T) {
	t.Parallel()
	objects := kustomized(t, "examples/install/secure-metrics")
	want := any([]any{"--metrics-secure", "--metrics-cert-dir=/etc/metrics"})
	if diff := cmp.Diff(want, containerOf(t, objects)["args"]); diff != "" {
		t.Errorf("unexpected flags (-want +got):\n%s", diff)
	}
	var endpoints []monitoringv1.Endpoint
	for _, object := range objects {
		if object.GetKind() != "ServiceMonitor" {
			continue
		}
		var monitor monitoringv1.ServiceMonitor
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &monitor, true)
		if err != nil {
			t.Fatal(err)
		}
		endpoints = monitor.Spec.Endpoints
	}
	if len(endpoints) != 1 {
		t.Fatalf("there are %d endpoints, want 1", len(endpoints))
	}
	got := endpoints[0].TLSConfig.SafeTLSConfig
	verified := monitoringv1.SafeTLSConfig{
		ServerName: new("pytorch-controller-metrics.t9k-pytorch.svc"),
		CA: monitoringv1.SecretOrConfigMap{Secret: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "pytorch-controller-metrics"}, Key: "ca.crt",
		}},
	}
	if diff := cmp.Diff(verified, got); diff != "" {
		t.Errorf("unexpected TLS configuration (-want +got):\n%s", diff)
	}
}

// TestSecureMetricsOfOneNamespaceAddOnlyTheirClusterRoles puts the component for secure metrics on the installation
// for one namespace. The component must add exactly two ClusterRoles and a ClusterRoleBinding.
func TestSecureMetricsOfOneNamespaceAddOnlyTheirClusterRoles(t *testing.T) {
	t.Parallel()
	for _, controller := range unqueued(t) {
		installed := kustomized(t, "deploy/"+controller+"/namespaced")
		component := "namespace: team\ncomponents: [ROOT/" + controller + "/config/securemetrics]"
		var added []string
		for _, object := range onTop(t, "deploy/"+controller+"/namespaced", component) {
			sameKind := func(other unstructured.Unstructured) bool {
				return other.GetKind() == object.GetKind() && other.GetName() == object.GetName()
			}
			if !slices.ContainsFunc(installed, sameKind) {
				added = append(added, id(object))
			}
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				if namespace := subject.(map[string]any)["namespace"]; namespace != "team" {
					t.Errorf("%s is for a ServiceAccount of namespace %v, want team", id(object), namespace)
				}
			}
		}
		prefix := "tensorstack-" + controller + "-metrics-"
		want := []string{
			"ClusterRole//" + prefix + "auth", "ClusterRole//" + prefix + "reader", "ClusterRoleBinding//" + prefix + "auth",
		}
		slices.Sort(added)
		if diff := cmp.Diff(want, added); diff != "" {
			t.Errorf("unexpected objects of %s (-want +got):\n%s", controller, diff)
		}
	}
}

// TestVolcanoFindsTheController checks that the configuration of Volcano's scheduler has the URL of the controller's
// Service.
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
			url := "http://" + object.GetName() + "." + object.GetNamespace() + ".svc\n"
			if !bytes.Contains(configuration, []byte(url)) {
				t.Errorf("%s is not in the configuration", url)
			}
		}
	}
	if services != 1 {
		t.Errorf("there are %d Services, want 1", services)
	}
}
