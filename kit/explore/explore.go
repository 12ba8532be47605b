// Package explore looks at every life of small jobs: whatever may happen between any two calls of the controller, in
// every order.
package explore

import (
	"cmp"
	"flag"
	"testing"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/kit/model"
)

// exploration is a small job whose every life is looked at: whatever may happen, in every order, up to a budget of
// what may go wrong. From every state that is reached, the job must get to where it belongs once nothing happens any
// more but by itself, and stay there without a write; and no step may break a law. The real reconciler works on the
// model of the API server; between any two of its calls the rest of the world may move on.
//
// States are told apart by what may decide what comes next, so that there are not too many to look at all; see encoder.
// What may happen between two calls of a reconcile is left out if it has nothing to do with the next of them: it may as
// well happen later.
type exploration struct {
	name  string
	shape model.Shape
	// inMesh is set if admission changes the pods of the job.
	inMesh bool
	// holds is set if the controller holds the pod of the leader.
	holds bool
	// failures and edits are what may happen, besides the faults of the controller and its caches.
	failures []string
	edits    []edit
	// queueEdits are what may happen to the queue of the job and its PodGroup.
	queueEdits []edit
	// budget is how often each thing may go wrong in one life. All together are limited: with full coverage by briefly,
	// where 0 is one, and with -explore.everything by most, where 0 is all of the budget.
	budget        spent
	briefly, most int
	// inTurn is set if only full coverage lets more than one thing go wrong.
	inTurn bool
	// added marks a job that each framework explores as well.
	added bool
	// timeTravel is set if a controller that starts may be shown a past that its predecessor had left behind.
	timeTravel bool
}

var everything = flag.Bool("explore.everything", false,
	"explore small jobs with everything that may go wrong, not only as much as time allows")

// explorations are the small jobs that are explored.
func explorations() []exploration {
	all := spent{failures: 2, edits: 1, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1}
	slow := all
	slow.ticks = 1
	twoEdits := all
	twoEdits.edits = 2
	lost := []string{"fails", "is deleted", "is preempted", "vanishes"}
	user := []edit{pauses, deletes, deletesInForeground}
	resuming := []edit{pauses, resumes, resizes}
	restartsInPlace := []string{
		"fails", "is restarted in place", "loses its attempt", "loses its kind of job", "loses its name of a job",
	}
	queue := []edit{closesQueue, opensQueue, deletesGroup}
	return []exploration{
		{
			name: "one replica, and all that may go wrong in one life", added: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: []edit{pauses, deletes},
			budget: all, briefly: 3,
		},
		{
			name: "one replica, and a new controller is shown the past", added: true,
			shape: model.One(model.OnFailure, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1}, briefly: 3,
		},
		{
			name: "one replica, to whose pods admission adds containers", added: true, inMesh: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted", "loses its sidecars"}, edits: []edit{pauses},
			budget: all, briefly: 2, most: 4,
		},
		{
			name: "one replica, whose pod is held", added: true, holds: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted", "vanishes"}, edits: []edit{pauses, deletes},
			budget: slow, briefly: 2, most: 3,
		},
		{
			name:     "one replica that fails again and again",
			shape:    model.One(model.OnFailure, model.Limit(2)),
			failures: []string{"fails"},
			budget:   spent{failures: 3, crashes: 1, lostEvents: 1}, briefly: 3,
		},
		{
			name: "one failure restarts all", added: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "each restarts alone",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "none restarts",
			shape:    model.Two(model.Never, model.ScopeReplica),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "exit codes decide",
			shape:    model.Two(model.ExitCode, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "success restarts",
			shape:    model.Two(model.Always, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "succeeds"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "all restart, paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resuming,
			budget: twoEdits, most: 2,
		},
		{
			name:     "each restarts alone, paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resuming,
			budget: twoEdits, most: 2,
		},
		{
			name:     "created paused",
			shape:    model.Pausing(model.Two(model.OnFailure, model.ScopeJob)),
			failures: []string{"fails", "is deleted"}, edits: resuming,
			budget: twoEdits, most: 3,
		},
		{
			name:     "nodes are lost",
			shape:    model.Two(model.OnFailure, model.ScopeJob),
			failures: []string{"fails", "loses its node"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a deadline, and a time to live",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Deadline(15), model.TimeToLive(10)),
			failures: []string{"fails"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "all pods are kept",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name: "all restart, and the leader is held", holds: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "vanishes", "loses its node"}, edits: user,
			budget: all, most: 2,
		},
		{
			name: "each restarts alone, the leader is held, and the job expires", holds: true,
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1), model.TimeToLive(10)),
			failures: []string{"is deleted", "vanishes"}, edits: []edit{pauses, deletesInForeground},
			budget: all, most: 2,
		},
		{
			name: "all restart, and admission adds containers to their pods", inMesh: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "loses its sidecars"}, edits: []edit{pauses},
			budget: all, most: 2,
		},
		{
			name: "none restarts, admission adds containers to the pods, and all are kept", inMesh: true,
			shape:    model.Two(model.Never, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: []string{"fails", "loses its sidecars"}, edits: []edit{deletes},
			budget: all, most: 2,
		},
		{
			name: "elastic, each restarts alone", added: true,
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: lost, edits: []edit{pauses, scales(1), scales(2)},
			budget: all, most: 2,
		},
		{
			name: "elastic with a rendezvous", added: true,
			shape:    model.Elastic(1, 1, "", model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: []edit{pauses, scales(2), scales(1)},
			budget: all, most: 3,
		},
		{
			name:     "elastic, down and up again",
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "vanishes"}, edits: []edit{scales(1), scales(2), pauses, resumes},
			budget: twoEdits, most: 2,
		},
		{
			name:     "elastic, with too few replicas left",
			shape:    model.Elastic(2, 2, model.ScopeReplica, model.Limit(0)),
			failures: []string{"fails", "vanishes"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:  "a new controller is shown the past",
			shape: model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1},
		},
		{
			name:     "everybody is slow",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 2, crashes: 1, ticks: 2}, briefly: 2,
		},
		{
			name:     "each restarts alone, and the user deletes the job",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{deletes},
			budget: all, briefly: 2,
		},
		{
			name:     "all restart, and the user pauses the job",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: all, briefly: 2, most: 4,
		},
		{
			name:  "a new controller is shown the past, each restarts alone",
			shape: model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{deletes},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1}, briefly: 3,
		},
		{
			name: "a gang of one, whose queue closes unseen", added: true,
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, queueEdits: queue,
			budget: spent{failures: 1, edits: 1, staleReads: 1, lostEvents: 1}, briefly: 2,
		},
		{
			name:     "a gang, of which each restarts alone",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails", "is deleted"}, edits: user, queueEdits: queue,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a gang that restarts as one, paused and resumed",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures: []string{"fails"}, edits: resuming, queueEdits: queue,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a gang that is elastic",
			shape:    model.InQueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{scales(1), scales(2)}, queueEdits: queue,
			budget: twoEdits, most: 2,
		},
		{
			name:     "one replica, whose controller is away for long",
			shape:    model.One(model.OnFailure, model.Limit(1), model.Deadline(90)),
			failures: []string{"fails", "vanishes"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 2, edits: 1, aways: 1}, briefly: 3,
		},
		{
			name:     "one failure restarts all, and the controller is away for long",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1), model.TimeToLive(10)),
			failures: []string{"fails", "vanishes"},
			budget:   spent{failures: 2, aways: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "one replica, and writes that are carried out late",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "vanishes"}, edits: resuming,
			budget: spent{failures: 2, edits: 2, crashes: 1, lates: 1}, briefly: 3,
		},
		{
			name:     "all restart, and writes are carried out late",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "vanishes"}, edits: []edit{pauses, resumes, resizes, deletes},
			budget: spent{failures: 2, edits: 2, crashes: 1, lates: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "each restarts alone, and writes are carried out late",
			shape:    model.Two(model.Never, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "vanishes"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 2, edits: 1, crashes: 1, lates: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "all pods are kept, and writes are carried out late",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: []string{"fails", "vanishes"},
			budget:   spent{failures: 2, lates: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a gang of one, and writes that are carried out late",
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, edits: resuming, queueEdits: queue,
			budget: spent{failures: 1, edits: 2, lates: 1}, briefly: 3,
		},
		{
			name:     "one replica, and admission takes labels off its pod now and then",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1, conflicts: 1, changes: 2}, briefly: 3,
		},
		{
			name:     "one replica, whose container restarts in its pod, and whose labels change",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: restartsInPlace, edits: []edit{pauses},
			budget: all, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "all restart, and containers restart in their pods, whose labels change",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt"}, edits: []edit{pauses, resumes},
			budget: spent{failures: 2, edits: 1, crashes: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "each restarts alone, and containers restart in their pods, whose labels change",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt"}, edits: []edit{deletes},
			budget: spent{failures: 2, edits: 1, crashes: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "elastic with a rendezvous, and containers restart in their pods, whose labels change",
			shape:    model.Elastic(1, 2, "", model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt"},
			budget:   spent{failures: 2}, briefly: 2, inTurn: true,
		},
		{
			name:     "one replica, and somebody else has a name of the job for a while",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "vanishes"},
			edits:    []edit{takes(model.Pods, "pod"), takes(model.Services, "Service"), pauses, resumes, deletes},
			budget:   spent{failures: 1, edits: 2, crashes: 1}, briefly: 3,
		},
		{
			name:       "a gang of one, and somebody else has a name of the job for a while",
			shape:      model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures:   []string{"vanishes"},
			edits:      []edit{takes(model.Pods, "pod"), pauses, resumes},
			queueEdits: []edit{takes(model.PodGroups, "PodGroup"), deletesGroup},
			budget:     spent{failures: 1, edits: 2}, briefly: 3,
		},
	}
}

// Test explores small jobs of a kind: those that the coverage selects, with as much going wrong as it says. With
// -explore.everything as much goes wrong as there is to go wrong.
func Test(t *testing.T, k model.Kind, c model.Coverage) {
	t.Helper()
	for _, x := range explorations() {
		t.Run(x.name, func(t *testing.T) {
			if !k.Runs(x.shape) {
				t.Skip("jobs of this kind do not do that")
			}
			if c == model.Quick && x.shape.Replicas > 1 || c == model.Added && !x.added {
				t.Skip("it takes long, and is explored with the plain kind")
			}
			most := 1
			switch {
			case *everything:
				most = cmp.Or(x.most, x.budget.total())
			case c == model.Full:
				most = max(1, x.briefly)
			case c == model.Thorough && !x.inTurn:
				most = max(1, min(x.briefly, 2))
			}
			kind := k
			if x.inMesh {
				kind = kind.InMesh()
			}
			if x.holds {
				kind = kind.HoldingLeaders()
			}
			started := time.Now()
			got, err := x.explore(kind, most)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d steps, %d of the states at rest; at most %d things went wrong in one life; %s",
				got.states, got.steps, got.rests, most, time.Since(started).Round(time.Millisecond))
			if got.wrong != "" {
				t.Fatal(got.wrong)
			}
		})
	}
}

// explorationOptions are short times, so that there are few to tell apart.
func explorationOptions() controller.Options {
	return controller.Options{
		Settings: plan.Settings{
			ClusterDomain: "cluster.local", Image: "controller:test",
			PeerGrace: peerGrace, FailureWindow: 2 * time.Second, NodeLostDelay: 9 * time.Second,
			DependentRetry: dependentRetry,
		},
		StatusInterval: statusInterval,
	}
}
