package upgrade

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"tensorstack.dev/jobs/test/internal/modules"
)

// What a user applies is taken by the API server, as far as it has the APIs that docs/upgrading.md says are needed.
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

	// Their namespaces and APIs are there by now, but for those that a user makes.
	for _, namespace := range []string{"team-a", "monitoring", "volcano-system"} {
		s.kubectl(t, "create", "namespace", namespace)
	}
	for _, tc := range []struct {
		folder        string
		needsPolicies bool
		// without are the kinds of the Prometheus operator in it, whose API is not there.
		without string
	}{
		{folder: "deploy/all", needsPolicies: true},
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
					t.Errorf("the error is %v, want %q and nothing else", err, want)
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// mutatingAdmissionPolicies returns the version of Kubernetes, and reports whether it serves these policies.
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
