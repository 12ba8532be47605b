// Package conformance checks that a framework, run by the job controller, keeps the contract of its job kind: that
// restarts are counted exactly, that every job ends as it should, and that no crash, lost answer or lagging cache
// changes either. A framework runs it in a dozen lines; see Run.
package conformance

import (
	"flag"
	"runtime/debug"
	"testing"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/explore"
	"tensorstack.dev/jobs/kit/model"
)

// Shape is what the suite varies of a job.
type Shape = model.Shape

// fullConformance is a flag of the tests of this package, and of those of frameworks.
var fullConformance = flag.Bool("conformance.full", false, "check everything, and not only as much as time allows")

// Run checks a controller. The function makes a job of the given shape, without a name.
//
// What the job controller does is the same for all frameworks and is covered thoroughly by the tests of this package,
// on a kind that adds nothing. Of a framework, Run checks what it adds to that. With -conformance.full it checks
// everything, with -short what takes a few seconds.
func Run[J framework.Job](t *testing.T, controller manager.Controller[J], newJob func(Shape) J) {
	t.Helper()
	runSuite(t, controller, newJob, model.Added)
}

// runSuite runs the suite with the coverage, unless a flag says otherwise.
func runSuite[J framework.Job](t *testing.T, controller manager.Controller[J], newJob func(Shape) J, c model.Coverage) {
	t.Helper()
	k, c := prepare(t, controller, newJob, c)
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	if c >= model.Thorough {
		t.Run("jobs find their way wherever they walk", func(t *testing.T) { testWalks(t, k, c) })
	}
	t.Run("a pod that is gone before a cache tells of it is created again", func(t *testing.T) { testBrokenWatch(t, k) })
	t.Run("small jobs live through everything", func(t *testing.T) { explore.Test(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
	t.Run("the log tells of each decision, once", func(t *testing.T) { testLog(t, k) })
	t.Run("replicas are wired alike every time", func(t *testing.T) { testWiring(t, controller.Framework, newJob) })
}

// runInMesh lets jobs live on a cluster whose admission adds containers to their pods and takes off a label.
func runInMesh[J framework.Job](t *testing.T, controller manager.Controller[J], newJob func(Shape) J) {
	t.Helper()
	k, c := prepare(t, controller, newJob, model.Quick)
	k = k.InMesh()
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	t.Run("jobs find their way wherever they walk", func(t *testing.T) { testWalks(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
}

// runHoldingLeaders lets jobs live with a controller that holds the pods of leaders. All ends as without.
func runHoldingLeaders[J framework.Job](t *testing.T, controller manager.Controller[J], newJob func(Shape) J) {
	t.Helper()
	k, c := prepare(t, controller, newJob, model.Quick)
	k = k.HoldingLeaders()
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	t.Run("jobs find their way wherever they walk", func(t *testing.T) { testWalks(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
}

// prepare returns the kind of a controller, and how much of the suite runs, which flags may change.
func prepare[J framework.Job](
	t *testing.T, controller manager.Controller[J], newJob func(Shape) J, c model.Coverage,
) (model.Kind, model.Coverage) {
	t.Helper()
	switch {
	case testing.Short():
		c = model.Quick
	case *fullConformance:
		c = model.Full
	}
	collected := debug.SetGCPercent(400) // there is much garbage, and memory enough for it
	t.Cleanup(func() { debug.SetGCPercent(collected) })
	k, err := model.KindOf(controller, newJob)
	if err != nil {
		t.Fatal(err)
	}
	return k, c
}
