package repository

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// templated returns the objects that Helm installs of the chart of a controller, in a namespace, with values as --set
// takes them.
func templated(t *testing.T, controller, namespace, values string) []unstructured.Unstructured {
	t.Helper()
	return printed(t, program(t, "helm"), "template", "release", chart(controller), "--namespace", namespace, "--set",
		values)
}

func chart(controller string) string { return "../../bin/charts/" + controller + "-controller" }

// without returns those objects that are not of the kind.
func without(kind string, objects []unstructured.Unstructured) []unstructured.Unstructured {
	var others []unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() != kind {
			others = append(others, object)
		}
	}
	return others
}

// unqueued returns the controllers but that of queues, which belong to the cluster and have an engine.
func unqueued(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(readVersions(t).Controllers(), func(name string) bool { return name == "scheduler" })
}

func TestChartInstallsWhatKustomizeDoes(t *testing.T) {
	t.Parallel()
	type chartCase struct {
		controller, values string
		folder             string
	}
	cases := map[string]chartCase{
		"queues on kube-scheduler": {"scheduler", "", "deploy/scheduler/native"},
		"queues on Volcano":        {"scheduler", "engine=volcano", "deploy/scheduler/volcano"},
		"queues on Volcano before Kubernetes 1.36": {
			"scheduler", "engine=volcano,mutatingAdmissionPolicies=false", "deploy/scheduler/volcano-before-1.36",
		},
		"a controller without its API": {"pytorch", "crds.install=false", "deploy/pytorch/controller"},
	}
	for _, controller := range unqueued(t) {
		cases[controller] = chartCase{controller, "", "deploy/" + controller}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := templated(t, tc.controller, "t9k-"+tc.controller, tc.values)
			for _, object := range got {
				// Helm heeds it, and nobody else does.
				unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "helm.sh/resource-policy")
			}
			// Helm makes the namespace, if it is told to.
			same(t, without("Namespace", kustomized(t, tc.folder)), got)
		})
	}
}

func TestChartOfOneNamespaceInstallsWhatKustomizeDoes(t *testing.T) {
	t.Parallel()
	for _, controller := range unqueued(t) {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			got := templated(t, controller, "team", "namespaced=true,crds.install=false")
			same(t, onTop(t, "deploy/"+controller+"/namespaced", "namespace: team"), got)
			for _, object := range got {
				if object.GetNamespace() != "team" {
					t.Errorf("%s is not in the namespace", id(object))
				}
			}
		})
	}
}

func TestChartHasTheServiceMonitorOfTheComponent(t *testing.T) {
	t.Parallel()
	for _, controller := range readVersions(t).Controllers() {
		component := kustomized(t, controller+"/config/servicemonitor")
		same(t, append(component, templated(t, controller, "team", "")...),
			templated(t, controller, "team", "serviceMonitor.enabled=true"))
	}
}

func TestChartMakesNetworkPoliciesAsTheComponentDoes(t *testing.T) {
	t.Parallel()
	for _, controller := range unqueued(t) {
		for values, folder := range map[string]string{
			"networkPolicies.enabled=true":                 "deploy/" + controller + "/controller",
			"networkPolicies.enabled=true,namespaced=true": "deploy/" + controller + "/namespaced",
		} {
			t.Run(controller+" with "+values, func(t *testing.T) {
				t.Parallel()
				namespace := "t9k-" + controller
				component := fmt.Sprintf("namespace: %s\ncomponents: [ROOT/%s/config/networkpolicies]", namespace, controller)
				got := templated(t, controller, namespace, values+",crds.install=false")
				same(t, without("Namespace", onTop(t, folder, component)), got)
			})
		}
	}
}

func TestChartServesSecureMetricsAsTheComponentDoes(t *testing.T) {
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
			want := without("Namespace", onTop(t, folder, components))
			same(t, withoutNamespace(want), withoutNamespace(got))
		})
	}
}

// withoutNamespace removes the namespace of the objects that are for Prometheus, which the chart does not set.
func withoutNamespace(objects []unstructured.Unstructured) []unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == "Service" || object.GetKind() == "ServiceMonitor" {
			unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
		}
	}
	return objects
}

// The chart names the objects of the cluster after the namespace, so that releases in several namespaces do not share
// them.
func TestChartOfOneNamespaceServesSecureMetricsByRightsInTheCluster(t *testing.T) {
	t.Parallel()
	for _, controller := range unqueued(t) {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			component := "namespace: team\ncomponents: [ROOT/" + controller + "/config/securemetrics]"
			want := onTop(t, "deploy/"+controller+"/namespaced", component)
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
				t.Errorf("the component has %d objects of the cluster, want 3", clusterScoped)
			}
			same(t, want, templated(t, controller, "team", "namespaced=true,metrics.secure=true,crds.install=false"))
		})
	}
}

func TestValuesChangeTheDeployment(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values string
		path   []string
		want   any
	}{
		"copies": {"replicas=2", []string{"replicas"}, int64(2)},
		"nodes": {
			"nodeSelector.pool=system", []string{"template", "spec", "nodeSelector"}, map[string]any{"pool": "system"},
		},
		"priority": {
			"priorityClassName=system-cluster-critical",
			[]string{"template", "spec", "priorityClassName"},
			"system-cluster-critical",
		},
		"credentials to pull": {
			"imagePullSecrets[0].name=registry",
			[]string{"template", "spec", "imagePullSecrets"},
			[]any{map[string]any{"name": "registry"}},
		},
		"annotations of pods": {
			"podAnnotations.team=ml", []string{"template", "metadata", "annotations"}, map[string]any{"team": "ml"},
		},
		"labels of pods, beside those it is found by": {
			"podLabels.team=ml",
			[]string{"template", "metadata", "labels"},
			map[string]any{"app.kubernetes.io/name": "pytorch-controller", "team": "ml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := unstructured.NestedFieldNoCopy(deploymentOf(t, templated(t, "pytorch", "t9k-pytorch", tc.values)),
				append([]string{"spec"}, tc.path...)...)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("unexpected value (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestValuesChangeTheContainer(t *testing.T) {
	t.Parallel()
	values := "image.repository=registry.example.org/ml/pytorch-controller,image.tag=v9.9.9,image.pullPolicy=Always," +
		"args={--workers=64},resources.limits.memory=2Gi,namespaced=true," +
		"networkPolicies.enabled=true,networkPolicies.allowNamespaces=team=ops,metrics.secure=true"
	all := containerOf(t, templated(t, "pytorch", "t9k-pytorch", values))
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
	container := containerOf(t, templated(t, "pytorch", "t9k-pytorch", "image.digest="+digest))
	if image, want := container["image"], "tensorstack/pytorch-controller@"+digest; image != want {
		t.Errorf("the image is %s, want %s", image, want)
	}
}

func TestChartRefusesValuesThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ controller, values, want string }{
		"an unknown engine": {
			"scheduler", "engine=slurm", "at '/engine': value must be one of 'native', 'volcano'",
		},
		"queues of one namespace": {
			"scheduler", "namespaced=true", "additional properties 'namespaced' not allowed",
		},
		"Volcano elsewhere than where it looks": {
			"scheduler", "engine=volcano", "looks for the controller in namespace t9k-scheduler",
		},
		"NetworkPolicies of queues": {
			"scheduler", "networkPolicies.enabled=true", "additional properties 'networkPolicies' not allowed",
		},
		"secure metrics that are written wrong": {
			"pytorch", "metrics.tls=true", "at '/metrics': additional properties 'tls' not allowed",
		},
		"half a digest": {"pytorch", "image.digest=sha256:abc", "at '/image/digest'"},
		"a value that is written wrong": {
			"pytorch", "image.tags=v1", "at '/image': additional properties 'tags' not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := exec.CommandContext(t.Context(), program(t, "helm"), "template", chart(tc.controller), "--set",
				tc.values).CombinedOutput()
			if err == nil || !strings.Contains(string(output), tc.want) {
				t.Errorf("it does not say %q but: %.2000s", tc.want, output)
			}
		})
	}
}
