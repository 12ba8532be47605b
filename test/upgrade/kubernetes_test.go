package upgrade

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"tensorstack.dev/jobs/test/internal/modules"
)

// TestInstallsOnThisKubernetes applies all manifests that users apply. If this version of Kubernetes lacks an API
// that a manifest needs, the test skips the manifest (see docs/operate/upgrading.md).
func TestInstallsOnThisKubernetes(t *testing.T) {
	t.Parallel()
	s := startAPIServer(t)
	version, policies := s.mutatingAdmissionPolicies(t)

	type installation struct {
		base          string
		needsPolicies bool
	}
	installations := []installation{
		{base: "scheduler/volcano-before-1.36"},
		{base: "scheduler/volcano", needsPolicies: true},
		{base: "scheduler/native", needsPolicies: true},
	}
	registry, err := modules.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range registry.Controllers() {
		if controller != "scheduler" {
			installations = append(installations, installation{base: controller})
		}
	}
	for _, tc := range installations {
		t.Run(tc.base, func(t *testing.T) {
			if tc.needsPolicies && !policies {
				t.Skipf("Kubernetes %s has no MutatingAdmissionPolicy in admissionregistration.k8s.io/v1", version)
			}
			s.kubectl(t, "apply", "-k", "../../deploy/"+tc.base)
		})
	}

	// The installations above have created their namespaces and APIs. The folders below also need namespaces that users
	// create.
	for _, namespace := range []string{"team-a", "monitoring", "volcano-system"} {
		s.kubectl(t, "create", "namespace", namespace)
	}
	for _, tc := range []struct {
		folder        string
		needsPolicies bool
		// without is a kind of the Prometheus operator. The folder has an object of this kind, but the API of the kind is
		// not installed. Empty means that the APIs of all kinds are installed.
		without string
	}{
		{folder: "deploy/all", needsPolicies: true},
		{folder: "deploy/scaling", needsPolicies: true},
		{folder: "deploy/scheduler/volcano/conf"},
		{folder: "deploy/monitoring", without: "PrometheusRule"},
		{folder: "examples/install/monitored", without: "ServiceMonitor"},
		{folder: "examples/install/one-namespace"},
		{folder: "examples/install/registry"},
		{folder: "examples/install/secure-metrics", without: "ServiceMonitor"},
	} {
		t.Run(tc.folder, func(t *testing.T) {
			if tc.needsPolicies && !policies {
				t.Skipf("Kubernetes %s has no MutatingAdmissionPolicy in admissionregistration.k8s.io/v1", version)
			}
			err := s.try(t, "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-k", "../../"+tc.folder)
			if tc.without != "" {
				if want := `no matches for kind "` + tc.without + `"`; err == nil ||
					strings.Count(err.Error(), "no matches for kind") != 1 || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v, want only %q", err, want)
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// mutatingAdmissionPolicies returns the version of Kubernetes, and whether it serves MutatingAdmissionPolicies.
func (s *apiServer) mutatingAdmissionPolicies(t *testing.T) (version string, served bool) {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	admission, err := api.ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	return server.GitVersion, slices.ContainsFunc(admission.APIResources, func(r metav1.APIResource) bool {
		return r.Kind == "MutatingAdmissionPolicy"
	})
}
