// Package explore checks every execution of small jobs. It is an explicit-state model checker: between any two calls of
// the controller it tries every event that can happen, in every order.
package explore

import (
	"flag"
	"testing"
	"time"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/kit/model"
)

// exploration is a small job whose executions are all checked. In an execution, events can happen in any order, up to
// a budget of faults. A fault is any event that the budget counts, including changes by the user. No step may violate
// a law. From every state, once no more faults happen, the job must reach its correct end state and stay there
// without another write. The real reconciler runs on the model of the API server. Between any two calls of the
// reconciler, other components can act.
//
// Two states count as one unless their futures can differ. This keeps the number of states small. See encoder.
// Between two calls of a reconcile, events that do not affect the next call are left out, because they can happen
// later with the same effect.
type exploration struct {
	name  string
	shape model.Shape
	// inMesh is set if an admission webhook changes the pods of the job, as in a service mesh.
	inMesh bool
	// holds is set if the controller holds the pod of the leader.
	holds bool
	// failures are the faults of pods and of their trainings that can happen, and edits are the changes by the user.
	// Faults of the controller and its caches can happen in addition.
	failures []string
	edits    []edit
	// nodeFaults are the faults of nodes and devices that can happen.
	nodeFaults []string
	// hasOneNode is set if each pod can run on only one node, so that a pod that avoids its node cannot be scheduled.
	// sharesNodes is set if all pods run on the same node.
	hasOneNode, sharesNodes bool
	// queueEdits are the changes to the queue and to the PodGroup of the job.
	queueEdits []edit
	// kueueEdits are the changes to the Workload of the job and to its queue.
	kueueEdits []edit
	// budget is how often each fault can happen in one execution. The total number of faults also has a limit: with
	// -explore.everything see deepen, with full coverage the field briefly, and otherwise 1. If the field briefly is 0,
	// it is 1.
	budget  spent
	briefly int
	// inTurn is set if thorough coverage skips the job because its exploration takes long. Full coverage explores it.
	inTurn bool
	// added marks an exploration that also runs for each framework.
	added bool
	// timeTravel is set if a new controller process can start with a cache that is older than the cache of the previous
	// process.
	timeTravel bool
}

var everything = flag.Bool("explore.everything", false,
	"explore small jobs with as many faults in an execution as memory and an hour or two allow")

// Test explores small jobs of a kind. The coverage selects the jobs and the number of faults in an execution. With
// -explore.everything, executions have more and more faults. With -conformance.part, only a part of the jobs is
// explored.
func Test(t *testing.T, k model.Kind, c model.Coverage) {
	t.Helper()
	for i, x := range explorations() {
		if !model.IsInPart(i) {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			if !k.Runs(x.shape) {
				t.Skip("jobs of this kind do not support the shape")
			}
			if c == model.Quick && x.shape.Replicas > 1 || c == model.Added && !x.added ||
				c == model.Thorough && x.inTurn && !*everything {
				t.Skip("the exploration takes long: the test of the plain kind runs it, maybe only with full coverage")
			}
			kind := k
			if x.inMesh {
				kind = kind.InMesh()
			}
			if x.holds {
				kind = kind.HoldingLeaders()
			}
			started := time.Now()
			most, explore := 1, x.explore
			switch {
			case *everything:
				most, explore = x.budget.total(), x.deepen
			case c == model.Full:
				most = max(1, x.briefly)
			}
			got, err := explore(kind, most)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d steps, %d states at rest, at most %d faults in one execution, %s",
				got.states, got.steps, got.rests, got.most, time.Since(started).Round(time.Millisecond))
			if got.wrong != "" {
				t.Fatal(got.wrong)
			}
		})
	}
}

// enoughStates is the number of states above which deepen stops.
const enoughStates = 3_000_000

// deepen explores the executions without a fault, then those with one, and so on, up to the given number of faults. It
// stops before an exploration that will have more than enoughStates, if the number of states grows as it did last. The
// result is that of the last exploration.
func (x *exploration) deepen(k model.Kind, most int) (found, error) {
	for before, faults := 0, 0; ; faults++ {
		got, err := x.explore(k, faults)
		if err != nil || got.wrong != "" || faults >= most {
			return got, err
		}
		if before > 0 && got.states*got.states/before > enoughStates {
			return got, nil
		}
		before = got.states
	}
}

// explorationOptions returns options with short delays. Delays that are over no longer distinguish states, so short
// delays keep the number of states small.
func explorationOptions() controller.Options {
	return controller.Options{
		Settings: view.Settings{
			ClusterDomain: "cluster.local", Image: "controller:test",
			PeerGrace: peerGrace, FailureWindow: 2 * time.Second, NodeLostDelay: 9 * time.Second,
			DependentRetry: dependentRetry, AvoidNodesFor: avoidNodesFor, AvoidNodesPatience: avoidPatience,
		},
		StatusInterval: statusInterval,
		MaxRequests:    1, // so that the order of the calls of a reconcile is always the same
	}
}
