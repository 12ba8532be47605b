// Package conformance checks that the job controller, together with a framework, fulfills the contract of a job kind.
// By this contract, restarts are counted exactly and every job ends as specified, regardless of crashes, lost
// responses and stale caches. A framework needs about twelve lines to run the suite. See Run.
package conformance

import (
	"flag"
	"runtime/debug"
	"testing"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/explore"
	"tensorstack.dev/jobs/kit/model"
)

// Shape is the part of a job that the suite varies.
type Shape = model.Shape

// fullConformance is the flag that makes the tests of this package and of frameworks run the whole suite.
var fullConformance = flag.Bool("conformance.full", false,
	"run the whole conformance suite, instead of only as much as time allows")

// Run checks a controller. The function newJob returns a job of the given shape, without a name.
//
// By default, Run checks only the behavior that a framework adds. The behavior that all frameworks share is checked
// by the tests of this package, on a kind that adds nothing. With -conformance.full, Run runs the whole suite. With
// -short, Run runs only checks that take a few seconds.
func Run[J framework.Job](t *testing.T, controller framework.Controller[J], newJob func(Shape) J) {
	t.Helper()
	runSuite(t, controller, newJob, model.Added)
}

// runSuite runs the suite with the given coverage, unless -short or -conformance.full selects another coverage.
func runSuite[J framework.Job](
	t *testing.T, controller framework.Controller[J], newJob func(Shape) J, c model.Coverage,
) {
	t.Helper()
	k, c := prepare(t, controller, newJob, c)
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	if c >= model.Thorough {
		t.Run("jobs recover from random faults", func(t *testing.T) { testWalks(t, k, c) })
	}
	t.Run("a pod that vanishes while the watch is broken is recreated", func(t *testing.T) { testBrokenWatch(t, k) })
	t.Run("small jobs recover from all faults", func(t *testing.T) { explore.Test(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
	t.Run("the controller logs each decision once", func(t *testing.T) { testLog(t, k) })
	t.Run("the framework wires replicas consistently", func(t *testing.T) { testWiring(t, controller.Framework, newJob) })
}

// runInMesh runs parts of the suite on a cluster in which an admission webhook adds containers to each new pod and
// removes one of its labels. See model.Mesh.
func runInMesh[J framework.Job](t *testing.T, controller framework.Controller[J], newJob func(Shape) J) {
	t.Helper()
	k, c := prepare(t, controller, newJob, model.Quick)
	k = k.InMesh()
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	t.Run("jobs recover from random faults", func(t *testing.T) { testWalks(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
}

// runHoldingLeaders runs parts of the suite with a controller that holds the pods of leaders. All jobs must end in
// the same way as with a controller that does not hold these pods.
func runHoldingLeaders[J framework.Job](t *testing.T, controller framework.Controller[J], newJob func(Shape) J) {
	t.Helper()
	k, c := prepare(t, controller, newJob, model.Quick)
	k = k.HoldingLeaders()
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	t.Run("jobs recover from random faults", func(t *testing.T) { testWalks(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
}

// prepare returns the kind of a controller and the coverage of its tests. The coverage is c, unless -short or
// -conformance.full selects another one.
func prepare[J framework.Job](
	t *testing.T, controller framework.Controller[J], newJob func(Shape) J, c model.Coverage,
) (model.Kind, model.Coverage) {
	t.Helper()
	switch {
	case testing.Short():
		c = model.Quick
	case *fullConformance:
		c = model.Full
	}
	collected := debug.SetGCPercent(400) // trade memory for speed: the tests produce much garbage
	t.Cleanup(func() { debug.SetGCPercent(collected) })
	k, err := model.KindOf(controller, newJob)
	if err != nil {
		t.Fatal(err)
	}
	return k, c
}
