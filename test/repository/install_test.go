package repository

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/test/internal/manifests"
)

// controllers maps the name of each controller to the folder of its installation. The scheduler-controller has one
// installation for each engine, with the keys native and volcano.
func controllers(t *testing.T) map[string]string {
	t.Helper()
	folders := map[string]string{"native": "deploy/scheduler/native", "volcano": "deploy/scheduler/volcano"}
	for _, name := range readVersions(t).Confined() {
		folders[name] = "deploy/" + name
	}
	return folders
}

// installations maps each key of controllers to the objects of that installation.
func installations(t *testing.T) map[string][]unstructured.Unstructured {
	t.Helper()
	rendered := map[string][]unstructured.Unstructured{}
	for controller, folder := range controllers(t) {
		rendered[controller] = manifests.Kustomized(t, folder)
	}
	return rendered
}

func TestInstallationOfAllHasExactlyTheObjectsOfEachController(t *testing.T) {
	t.Parallel()
	var each []unstructured.Unstructured
	for controller, objects := range installations(t) {
		if controller != "volcano" { // deploy/all lacks the scheduler-controller for Volcano
			each = append(each, objects...)
		}
	}
	// If two controllers share an object, manifests.Same reports that the object occurs twice. Removing one of these
	// controllers would break the other one.
	manifests.Same(t, each, manifests.Kustomized(t, "deploy/all"))
}

func TestInstallationHasExactlyItsAPIAndItsController(t *testing.T) {
	t.Parallel()
	for name, folder := range controllers(t) {
		api := "deploy/" + name + "/crd"
		if strings.HasPrefix(folder, "deploy/scheduler") {
			api = "deploy/scheduler/crd"
		}
		parts := append(manifests.Kustomized(t, api), manifests.Kustomized(t, folder+"/controller")...)
		manifests.Same(t, manifests.Kustomized(t, folder), parts)
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
		container := manifests.Container(t, manifests.OnTop(t, folder, `
patches:
  - target: {kind: Deployment}
    patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--workers=64"}]'
`))
		if diff := cmp.Diff(any(want), container["args"]); diff != "" {
			t.Errorf("unexpected flags on top of %s (-want +got):\n%s", folder, diff)
		}
	}
}

func TestNamespacedInstallationHasNoClusterScopedObject(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Confined() {
		for _, object := range manifests.Kustomized(t, "deploy/"+controller+"/namespaced") {
			if !slices.Contains([]string{
				"ServiceAccount", "Role", "RoleBinding", "Deployment", "NetworkPolicy", "PodDisruptionBudget",
			}, object.GetKind()) {
				t.Errorf("the installation of %s for one namespace has %s", controller, manifests.ID(object))
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

// ownsTensorBoards reports whether the jobs of a controller can own a TensorBoard. If so, the installation of the
// controller has the component for this.
func ownsTensorBoards(t *testing.T, controller string) bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, controller, "config/controller/kustomization.yaml"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Contains(content, []byte("deploy/base/tensorboards\n"))
}

// TestServiceMonitorsOfAllControllersCanBeCombined puts the ServiceMonitor components of all controllers on top of
// deploy/all. It uses a kustomization that also generates a ConfigMap named controller, as the kustomization of a
// user can. This ConfigMap must not conflict with the ConfigMaps that the components generate for their parameters.
func TestServiceMonitorsOfAllControllersCanBeCombined(t *testing.T) {
	t.Parallel()
	want := manifests.Kustomized(t, "deploy/all")
	content := "configMapGenerator: [{name: controller, literals: [a=b]}]\ncomponents:\n"
	for _, controller := range readVersions(t).Controllers() {
		want = append(want, manifests.Kustomized(t, controller+"/config/servicemonitor")...)
		content += "  - ROOT/" + controller + "/config/servicemonitor\n"
	}
	manifests.Same(t, want, manifests.Without("ConfigMap", manifests.OnTop(t, "deploy/all", content)))
}

// TestComponentsForNetworkPoliciesCanBeCombined puts the components for network policies of all controllers on top of
// deploy/all. Each component must add the flag --network-policies and the permissions only to its own controller.
func TestComponentsForNetworkPoliciesCanBeCombined(t *testing.T) {
	t.Parallel()
	content := "components:\n"
	for _, controller := range readVersions(t).Confined() {
		content += "  - ROOT/" + controller + "/config/networkpolicies\n"
	}
	for _, object := range manifests.OnTop(t, "deploy/all", content) {
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
		if slices.Contains(readVersions(t).Confined(), controller) {
			want = 1
		}
		if got := bytes.Count(content, []byte(`"`+text+`"`)); got != want {
			t.Errorf("%s has %q %d times, want %d", manifests.ID(object), text, got, want)
		}
	}
}

// TestTheExampleOfATenantLeavesNoPodOpen checks the NetworkPolicy of examples/install/tenant. It leaves out pods with
// some labels, so the example of a shared cluster must install every controller of such pods with --network-policies.
func TestTheExampleOfATenantLeavesNoPodOpen(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../examples/install/tenant/network.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict(content, &policy); err != nil {
		t.Fatal(err)
	}
	want := []metav1.LabelSelectorRequirement{
		{Key: batchv1beta1.LabelJobName, Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: tensorboardv1beta1.LabelName, Operator: metav1.LabelSelectorOpDoesNotExist},
	}
	if diff := cmp.Diff(want, policy.Spec.PodSelector.MatchExpressions); diff != "" {
		t.Errorf("the NetworkPolicy leaves out other pods (-want +got):\n%s", diff)
	}
	confined := map[string]bool{}
	for _, object := range manifests.Kustomized(t, "examples/install/network-policies") {
		if object.GetKind() != "Deployment" {
			continue
		}
		content, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		controller := strings.TrimSuffix(object.GetName(), "-controller")
		confined[controller] = bytes.Contains(content, []byte(`"--network-policies"`))
	}
	for _, controller := range readVersions(t).Confined() {
		if !confined[controller] {
			t.Errorf("examples/install/network-policies does not install the %s-controller with --network-policies", controller)
		}
	}
}

// TestComponentsForSecureMetricsCanBeCombined puts the components for secure metrics of all controllers on top of
// deploy/all. Each component must change only its own controller, and add only the permissions that it needs.
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
	for _, object := range manifests.OnTop(t, "deploy/all", content) {
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
			args := manifests.Container(t, []unstructured.Unstructured{object})["args"].([]any)
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

// TestExampleOfSecureMetricsVerifiesTheCertificate checks examples/install/secure-metrics: the Prometheus operator
// must accept the fields of the ServiceMonitor, and Prometheus must verify the certificate.
func TestExampleOfSecureMetricsVerifiesTheCertificate(t *testing.T) {
	t.Parallel()
	objects := manifests.Kustomized(t, "examples/install/secure-metrics")
	want := any([]any{"--metrics-secure", "--metrics-cert-dir=/etc/metrics"})
	if diff := cmp.Diff(want, manifests.Container(t, objects)["args"]); diff != "" {
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
	for _, controller := range readVersions(t).Confined() {
		installed := manifests.Kustomized(t, "deploy/"+controller+"/namespaced")
		component := "namespace: team\ncomponents: [ROOT/" + controller + "/config/securemetrics]"
		var added []string
		for _, object := range manifests.OnTop(t, "deploy/"+controller+"/namespaced", component) {
			sameKind := func(other unstructured.Unstructured) bool {
				return other.GetKind() == object.GetKind() && other.GetName() == object.GetName()
			}
			if !slices.ContainsFunc(installed, sameKind) {
				added = append(added, manifests.ID(object))
			}
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				if namespace := subject.(map[string]any)["namespace"]; namespace != "team" {
					t.Errorf("%s is for a ServiceAccount of namespace %v, want team", manifests.ID(object), namespace)
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
