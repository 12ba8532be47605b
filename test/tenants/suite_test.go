// Package tenants attacks the controllers as a tenant who has the built-in role edit in one namespace. It checks that
// the work of another tenant continues, and that no controller exceeds the memory limit of its container. The tests use
// a real API server with RBAC. The controllers are processes that run as their Deployments describe them. There is no
// kubelet: pods end when a test ends them.
package tenants

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

// bound is the maximum time by which an attack may delay the work of a tenant. It is generous because test machines
// are slow.
const bound = time.Minute

var kubernetes = flag.String("kubernetes", localcluster.DefaultKubernetes,
	"components folder of the Kubernetes of the control planes")

// TestTenants runs the attacks.
func TestTenants(t *testing.T) {
	if os.Getenv("TENANTS") == "" {
		t.Skip("the attacks take minutes and gigabytes of memory; `make tenants` runs them")
	}
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(bound)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = time.Hour
	RunSpecs(t, "tenants", suite, reporter)
}

var (
	// programs are the programs of the control planes.
	programs simulated.Programs
	// kubectl is the path of kubectl.
	kubectl string
)

var _ = BeforeSuite(func(ctx context.Context) {
	builder := buildPrograms(ctx, simulated.None, simulated.Native)
	assets, err := builder.Assets(ctx)
	Expect(err).NotTo(HaveOccurred())
	kubectl = filepath.Join(assets, "kubectl")
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

// buildPrograms builds the programs of control planes with the given engines.
func buildPrograms(ctx context.Context, kinds ...simulated.Kind) *localcluster.Builder {
	GinkgoHelper()
	repo, err := localcluster.FindRepo("")
	Expect(err).NotTo(HaveOccurred())
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	builder := &localcluster.Builder{
		Repo: repo, Paths: paths, Kubernetes: *kubernetes, Progress: localcluster.NewProgress(os.Stdout),
	}
	programs, err = simulated.Build(ctx, builder, kinds...)
	Expect(err).NotTo(HaveOccurred())
	return builder
}
