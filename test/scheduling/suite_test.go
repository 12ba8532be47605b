// Package scheduling tests gangs and queues on the scheduling engines themselves.
package scheduling

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

func TestScheduling(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("the tests of scheduling run whole schedulers, which are built for minutes first: set E2E=true")
	}
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "scheduling", Label("scheduling"))
}

// programs are those that control planes consist of.
var programs simulated.Programs

// The first process builds the programs, and the others find them built. Time limits are made for what runs, not for
// builds.
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
}

// start starts a control plane with an engine, which stops after the test or container of tests. If one failed, the end
// of the engine's log is in the report.
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
