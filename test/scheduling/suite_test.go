// Package scheduling tests gangs and queues on real scheduling engines.
package scheduling

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

func TestScheduling(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("these tests run real schedulers, which take minutes to build: set E2E=true to run them")
	}
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "scheduling", Label("scheduling"))
}

// programs are the programs of the control planes.
var programs simulated.Programs

// The first Ginkgo process builds the programs, and the other processes find them in the build cache. The build is
// outside of the specs, because their timeouts are too short for it.
var _ = SynchronizedBeforeSuite(build, build)

func build(ctx context.Context) {
	repo, err := localcluster.FindRepo("")
	Expect(err).NotTo(HaveOccurred())
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	programs, err = simulated.Build(ctx, &localcluster.Builder{
		Repo: repo, Paths: paths, Kubernetes: localcluster.DefaultKubernetes, Progress: localcluster.NewProgress(os.Stdout),
	}, simulated.Native, simulated.Volcano)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
}

// start starts a control plane with an engine, and stops the control plane after the spec. If the spec has failed,
// start adds the end of the engine's log to the report.
func start(ctx context.Context, kind simulated.Kind, crds ...string) *simulated.ControlPlane {
	GinkgoHelper()
	c, err := simulated.Start(ctx, simulated.Options{Kind: kind, CRDs: crds, Dir: GinkgoT().TempDir(), Programs: programs})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("the end of the log of "+c.Engine, c.LogTail(c.Engine))
		}
		Expect(c.Stop()).To(Succeed())
	})
	AddReportEntry(fmt.Sprintf("%s: started in %.1fs", kind, c.StartTime.Seconds()))
	return c
}
