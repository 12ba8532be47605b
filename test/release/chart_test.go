package release

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tensorstack.dev/jobs/test/internal/manifests"
	"tensorstack.dev/jobs/test/internal/modules"
)

// templated returns the objects that Helm installs from the chart of a controller in a namespace. The values have the
// syntax of --set.
func templated(t *testing.T, controller, namespace, values string) []unstructured.Unstructured {
	t.Helper()
	return manifests.Printed(t, manifests.Program(t, "helm"), "template", "release", chart(controller),
		"--namespace", namespace, "--set", values)
}

// chart returns the folder of the chart of a controller.
func chart(controller string) string { return root + "/bin/charts/" + controller + "-controller" }

func TestChartInstallsTheObjectsOfTheKustomization(t *testing.T) {
	t.Parallel()
	type chartCase struct {
		controller, values string
		folder             string
	}
	cases := map[string]chartCase{
		"scheduler on kube-scheduler": {"scheduler", "", "deploy/scheduler/native"},
		"scheduler on Volcano":        {"scheduler", "engine=volcano", "deploy/scheduler/volcano"},
		"scheduler on Volcano before Kubernetes 1.36": {
			"scheduler", "engine=volcano,mutatingAdmissionPolicies=false", "deploy/scheduler/volcano-before-1.36",
		},
		"pytorch without its CRD": {"pytorch", "crds.install=false", "deploy/pytorch/controller"},
	}
	for _, controller := range readVersions(t).Confined() {
		cases[controller] = chartCase{controller, "", "deploy/" + controller}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := templated(t, tc.controller, "t9k-"+tc.controller, tc.values)
			for _, object := range got {
				// Only Helm uses this annotation.
				unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "helm.sh/resource-policy")
			}
			// The chart does not have the namespace, which Helm creates with --create-namespace.
			manifests.Same(t, manifests.Without("Namespace", manifests.Kustomized(t, tc.folder)), got)
		})
	}
}

func TestChartOfOneNamespaceInstallsTheObjectsOfTheKustomization(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Confined() {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			got := templated(t, controller, "team", "namespaced=true,crds.install=false")
			manifests.Same(t, manifests.OnTop(t, "deploy/"+controller+"/namespaced", "namespace: team"), got)
			for _, object := range got {
				if object.GetNamespace() != "team" {
					t.Errorf("%s is not in the namespace team", manifests.ID(object))
				}
			}
		})
	}
}

func TestChartHasTheServiceMonitorOfTheComponent(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Controllers() {
		component := manifests.Kustomized(t, controller+"/config/servicemonitor")
		manifests.Same(t, append(component, templated(t, controller, "team", "")...),
			templated(t, controller, "team", "serviceMonitor.enabled=true"))
	}
}

func TestChartEnablesNetworkPoliciesLikeTheComponent(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Confined() {
		for values, folder := range map[string]string{
			"networkPolicies.enabled=true":                 "deploy/" + controller + "/controller",
			"networkPolicies.enabled=true,namespaced=true": "deploy/" + controller + "/namespaced",
		} {
			t.Run(controller+" with "+values, func(t *testing.T) {
				t.Parallel()
				namespace := "t9k-" + controller
				component := fmt.Sprintf("namespace: %s\ncomponents: [ROOT/%s/config/networkpolicies]", namespace, controller)
				got := templated(t, controller, namespace, values+",crds.install=false")
				manifests.Same(t, manifests.Without("Namespace", manifests.OnTop(t, folder, component)), got)
			})
		}
	}
}

func TestChartEnablesKueueLikeTheComponent(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Names(modules.Framework) {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			component := fmt.Sprintf("components: [ROOT/%s/config/kueue]", controller)
			got := templated(t, controller, "t9k-"+controller, "kueue.enabled=true,crds.install=false")
			want := manifests.OnTop(t, "deploy/"+controller+"/controller", component)
			manifests.Same(t, manifests.Without("Namespace", want), got)
		})
	}
}

func TestChartSecuresMetricsLikeTheComponent(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Controllers() {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			folder := "deploy/" + controller + "/controller"
			if controller == "scheduler" {
				folder = "deploy/scheduler/native/controller"
			}
			namespace := "t9k-" + controller
			components := fmt.Sprintf(`namespace: %[1]s
components: [ROOT/%[2]s/config/servicemonitor, ROOT/%[2]s/config/securemetrics]`, namespace, controller)
			got := templated(t, controller, namespace, "serviceMonitor.enabled=true,metrics.secure=true,crds.install=false")
			want := manifests.Without("Namespace", manifests.OnTop(t, folder, components))
			manifests.Same(t, withoutNamespace(want), withoutNamespace(got))
		})
	}
}

// withoutNamespace removes the namespace of Services and ServiceMonitors, because the chart does not set it.
func withoutNamespace(objects []unstructured.Unstructured) []unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == "Service" || object.GetKind() == "ServiceMonitor" {
			unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
		}
	}
	return objects
}

// TestChartOfOneNamespaceNamesClusterRolesAfterIt checks the chart of a controller for one namespace with secure
// metrics. The names of cluster-scoped objects must contain the namespace, so that the releases in two namespaces do
// not use the same objects.
func TestChartOfOneNamespaceNamesClusterRolesAfterIt(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Confined() {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			component := "namespace: team\ncomponents: [ROOT/" + controller + "/config/securemetrics]"
			want := manifests.OnTop(t, "deploy/"+controller+"/namespaced", component)
			clusterScoped := 0
			for _, object := range want {
				if !strings.HasPrefix(object.GetKind(), "ClusterRole") {
					continue
				}
				clusterScoped++
				object.SetName(object.GetName() + "-team")
				if role, found, _ := unstructured.NestedString(object.Object, "roleRef", "name"); found {
					_ = unstructured.SetNestedField(object.Object, role+"-team", "roleRef", "name")
				}
			}
			if clusterScoped != 3 {
				t.Errorf("the component has %d cluster-scoped objects, want 3", clusterScoped)
			}
			manifests.Same(t, want, templated(t, controller, "team", "namespaced=true,metrics.secure=true,crds.install=false"))
		})
	}
}

func TestValuesOfTheChartChangeTheDeployment(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values string
		path   []string
		want   any
	}{
		"replicas": {"replicas=2", []string{"replicas"}, int64(2)},
		"node selector": {
			"nodeSelector.pool=system", []string{"template", "spec", "nodeSelector"}, map[string]any{"pool": "system"},
		},
		"priority class": {
			"priorityClassName=system-cluster-critical",
			[]string{"template", "spec", "priorityClassName"},
			"system-cluster-critical",
		},
		"image pull secrets": {
			"imagePullSecrets[0].name=registry",
			[]string{"template", "spec", "imagePullSecrets"},
			[]any{map[string]any{"name": "registry"}},
		},
		"pod annotations": {
			"podAnnotations.team=ml", []string{"template", "metadata", "annotations"}, map[string]any{"team": "ml"},
		},
		"pod labels in addition to the selector labels": {
			"podLabels.team=ml",
			[]string{"template", "metadata", "labels"},
			map[string]any{"app.kubernetes.io/name": "pytorch-controller", "team": "ml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployment := manifests.Deployment(t, templated(t, "pytorch", "t9k-pytorch", tc.values))
			got, _, err := unstructured.NestedFieldNoCopy(deployment, append([]string{"spec"}, tc.path...)...)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("unexpected value (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestValuesOfTheChartChangeTheContainer(t *testing.T) {
	t.Parallel()
	values := "image.repository=registry.example.org/ml/pytorch-controller,image.tag=v9.9.9,image.pullPolicy=Always," +
		"args={--workers=64},resources.limits.memory=2Gi,namespaced=true," +
		"networkPolicies.enabled=true,networkPolicies.allowNamespaces=team=ops,metrics.secure=true"
	all := manifests.Container(t, templated(t, "pytorch", "t9k-pytorch", values))
	got := map[string]any{}
	for _, field := range []string{"image", "imagePullPolicy", "args", "resources"} {
		got[field] = all[field]
	}
	want := map[string]any{
		"image": "registry.example.org/ml/pytorch-controller:v9.9.9", "imagePullPolicy": "Always",
		"args": []any{
			"--namespace=$(POD_NAMESPACE)", "--network-policies", "--network-policy-allow-namespaces=team=ops",
			"--metrics-secure", "--workers=64",
		},
		"resources": map[string]any{
			"requests": map[string]any{"cpu": "100m", "memory": "64Mi"}, "limits": map[string]any{"memory": "2Gi"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected container (-want +got):\n%s", diff)
	}
}

func TestChartPinsAnImageByItsDigest(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	container := manifests.Container(t, templated(t, "pytorch", "t9k-pytorch", "image.digest="+digest))
	if image, want := container["image"], "tensorstack/pytorch-controller@"+digest; image != want {
		t.Errorf("the image is %s, want %s", image, want)
	}
}

func TestChartRejectsInvalidValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ controller, values, want string }{
		"an unknown engine": {
			"scheduler", "engine=slurm", "at '/engine': value must be one of 'native', 'volcano'",
		},
		"the scheduler in one namespace": {
			"scheduler", "namespaced=true", "additional properties 'namespaced' not allowed",
		},
		"Volcano in a namespace where it does not find the controller": {
			"scheduler", "engine=volcano", "looks for the controller in namespace t9k-scheduler",
		},
		"NetworkPolicies of the scheduler": {
			"scheduler", "networkPolicies.enabled=true", "additional properties 'networkPolicies' not allowed",
		},
		"a misspelled value of secure metrics": {
			"pytorch", "metrics.tls=true", "at '/metrics': additional properties 'tls' not allowed",
		},
		"an incomplete digest": {"pytorch", "image.digest=sha256:abc", "at '/image/digest'"},
		"a misspelled value of the image": {
			"pytorch", "image.tags=v1", "at '/image': additional properties 'tags' not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := exec.CommandContext(t.Context(), manifests.Program(t, "helm"), "template",
				chart(tc.controller), "--set", tc.values).CombinedOutput()
			if err == nil || !strings.Contains(string(output), tc.want) {
				t.Errorf("want an error with %q, got %v: %.2000s", tc.want, err, output)
			}
		})
	}
}
