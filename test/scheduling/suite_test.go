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
	programs = build(t)
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "scheduling", Label("scheduling"))
}

// programs are built before the tests, whose time limits are made for what runs, not for builds.
var programs simulated.Programs

func build(t *testing.T) simulated.Programs {
	repo, err := localcluster.FindRepo("")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := localcluster.DefaultPaths()
	if err != nil {
		t.Fatal(err)
	}
	built, err := simulated.Build(t.Context(), &localcluster.Builder{
		Repo: repo, Paths: paths, Kubernetes: localcluster.DefaultKubernetes, Progress: localcluster.NewProgress(os.Stdout),
	}, simulated.Native, simulated.Volcano)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// start starts a control plane with an engine, which stops after the test or container of tests. If one failed, the end of the
// engine's log is in the report.
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
