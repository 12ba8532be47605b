// Package explore checks every execution of small jobs. It is an explicit-state model checker: between any two calls of
// the controller it tries every event that can happen, in every order.
package explore

import (
	"cmp"
	"flag"
	"testing"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/kit/model"
)

// exploration is a small job whose executions are all checked. In an execution any event can happen in any order, up to
// a budget of faults. A fault is any event that the budget counts, including changes by the user. No step must violate
// a law. From every state, once no more faults happen, the job must reach its correct end state and stay there without
// another write. The real reconciler runs on the model of the API server. Between any two calls of the reconciler,
// other components can act.
//
// Two states are the same unless their futures can differ, which keeps the number of states small. See encoder.
// Between two calls of a reconcile, events that do not affect the next call are left out, because they can happen later
// with the same effect.
type exploration struct {
	name  string
	shape model.Shape
	// inMesh is set if admission changes the pods of the job.
	inMesh bool
	// holds is set if the controller holds the pod of the leader.
	holds bool
	// failures are the failures of pods that can happen, and edits the changes by the user. Faults of the controller
	// and its caches can happen in addition.
	failures []string
	edits    []edit
	// nodeFaults are the faults of nodes and devices that can happen.
	nodeFaults []string
	// hasOneNode is set if a pod that avoids nodes fits on no node. sharesNodes is set if all pods run on the same
	// node.
	hasOneNode, sharesNodes bool
	// queueEdits are the changes to the queue and to the PodGroup of the job.
	queueEdits []edit
	// kueueEdits are the changes to the Workload of the job and to its queue.
	kueueEdits []edit
	// budget is how often each fault can happen in one execution. The total number of faults is limited by briefly with
	// full coverage, where 0 means 1, and by most with -explore.everything, where 0 means the whole budget.
	budget        spent
	briefly, most int
	// inTurn is set if only full coverage explores the job.
	inTurn bool
	// added marks an exploration that also runs for each framework.
	added bool
	// timeTravel is set if a new controller process can start with a cache that is older than the cache of the previous
	// process.
	timeTravel bool
}

var everything = flag.Bool("explore.everything", false,
	"explore small jobs with their whole budget of faults, instead of only as many faults as time allows")

// explorations returns the small jobs that are explored.
func explorations() []exploration {
	all := spent{failures: 2, edits: 1, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1}
	slow := all
	slow.ticks = 1
	twoEdits := all
	twoEdits.edits = 2
	lost := []string{"fails", "is deleted", "is preempted", "is deleted by force"}
	user := []edit{pauses, deletes, deletesInForeground}
	resuming := []edit{pauses, resumes, resizes}
	restartsInPlace := []string{
		"fails", "is restarted in place",
		"loses its attempt label", "loses its job-kind label", "loses its job-name label",
	}
	queue := []edit{closesQueue, opensQueue, deletesGroup}
	small := []exploration{
		{
			name: "a job of one replica survives every kind of fault", added: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: []edit{pauses, deletes},
			budget: all, briefly: 3,
		},
		{
			name: "a job of one replica survives a controller that starts with stale caches", added: true,
			shape: model.One(model.OnFailure, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1}, briefly: 3,
		},
		{
			name: "a job of one replica survives admission that adds containers", added: true, inMesh: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted", "loses its sidecars"}, edits: []edit{pauses},
			budget: all, briefly: 2, most: 4,
		},
		{
			name: "a job of one replica survives faults while its pod is held", added: true, holds: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted", "is deleted by force"}, edits: []edit{pauses, deletes},
			budget: slow, briefly: 2, most: 3,
		},
		{
			name:     "a job of one replica survives repeated failures",
			shape:    model.One(model.OnFailure, model.Limit(2)),
			failures: []string{"fails"},
			budget:   spent{failures: 3, crashes: 1, lostEvents: 1}, briefly: 3,
		},
		{
			name: "a job that restarts as a whole survives every kind of fault", added: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job whose replicas restart alone survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job whose replicas never restart survives every kind of fault",
			shape:    model.Two(model.Never, model.ScopeReplica),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job with the restart policy ExitCode survives every kind of fault",
			shape:    model.Two(model.ExitCode, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job with the restart policy Always survives every kind of fault",
			shape:    model.Two(model.Always, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "succeeds"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job that restarts as a whole is paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resuming,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a job whose replicas restart alone is paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resuming,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a job is created paused and resumed later",
			shape:    model.Pausing(model.Two(model.OnFailure, model.ScopeJob)),
			failures: []string{"fails", "is deleted"}, edits: resuming,
			budget: twoEdits, most: 3,
		},
		{
			name:     "a job survives the loss of nodes",
			shape:    model.Two(model.OnFailure, model.ScopeJob),
			failures: []string{"fails", "loses its node"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job with a deadline and a TTL survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Deadline(15), model.TimeToLive(10)),
			failures: []string{"fails"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:     "a job that keeps all pods survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: lost, edits: user,
			budget: all, most: 2,
		},
		{
			name: "a job that restarts as a whole survives faults while its leader is held", holds: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted by force", "loses its node"}, edits: user,
			budget: all, most: 2,
		},
		{
			name: "a job whose replicas restart alone expires while its leader is held", holds: true,
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1), model.TimeToLive(10)),
			failures: []string{"is deleted", "is deleted by force"}, edits: []edit{pauses, deletesInForeground},
			budget: all, most: 2,
		},
		{
			name: "a job that restarts as a whole survives admission that adds containers", inMesh: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "loses its sidecars"}, edits: []edit{pauses},
			budget: all, inTurn: true, most: 2,
		},
		{
			name: "a job that keeps all pods survives admission that adds containers", inMesh: true,
			shape:    model.Two(model.Never, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: []string{"fails", "loses its sidecars"}, edits: []edit{deletes},
			budget: all, most: 2,
		},
		{
			name: "an elastic job whose replicas restart alone is paused and scaled", added: true,
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: lost, edits: []edit{pauses, scales(1), scales(2)},
			budget: all, most: 2,
		},
		{
			name: "an elastic job with a rendezvous is paused and scaled", added: true,
			shape:    model.Elastic(1, 1, "", model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: []edit{pauses, scales(2), scales(1)},
			budget: all, most: 3,
		},
		{
			name:     "an elastic job is scaled down and up again",
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{scales(1), scales(2), pauses, resumes},
			budget: twoEdits, most: 2,
		},
		{
			name:     "an elastic job has too few replicas left",
			shape:    model.Elastic(2, 2, model.ScopeReplica, model.Limit(0)),
			failures: []string{"fails", "is deleted by force"}, edits: user,
			budget: all, most: 2,
		},
		{
			name:  "a job that restarts as a whole survives a controller that starts with stale caches",
			shape: model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1},
		},
		{
			name:     "a job survives slow components",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 2, crashes: 1, ticks: 2}, briefly: 2,
		},
		{
			name:     "the user deletes a job whose replicas restart alone",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{deletes},
			budget: all, briefly: 2, inTurn: true,
		},
		{
			name:     "the user pauses a job that restarts as a whole",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: all, briefly: 2, most: 4,
		},
		{
			name:  "a job whose replicas restart alone survives a controller that starts with stale caches",
			shape: model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{deletes},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1}, briefly: 3, inTurn: true,
		},
		{
			name: "a gang of one replica survives a queue that closes unseen", added: true,
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, queueEdits: queue,
			budget: spent{failures: 1, edits: 1, staleReads: 1, lostEvents: 1}, briefly: 2,
		},
		{
			name:     "a gang whose replicas restart alone survives every kind of fault",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails", "is deleted"}, edits: user, queueEdits: queue,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a gang that restarts as a whole is paused and resumed",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures: []string{"fails"}, edits: resuming, queueEdits: queue,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a gang that is elastic is scaled",
			shape:    model.InQueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{scales(1), scales(2)}, queueEdits: queue,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a job of one replica survives a long absence of its controller",
			shape:    model.One(model.OnFailure, model.Limit(1), model.Deadline(90)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 2, edits: 1, aways: 1}, briefly: 3,
		},
		{
			name:     "a job that restarts as a whole survives a long absence of its controller",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1), model.TimeToLive(10)),
			failures: []string{"fails", "is deleted by force"},
			budget:   spent{failures: 2, aways: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a job of one replica survives delayed writes",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: resuming,
			budget: spent{failures: 2, edits: 2, crashes: 1, lates: 1}, briefly: 3,
		},
		{
			name:     "a job that restarts as a whole survives delayed writes",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{pauses, resumes, resizes, deletes},
			budget: spent{failures: 2, edits: 2, crashes: 1, lates: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a job whose replicas never restart survives delayed writes",
			shape:    model.Two(model.Never, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 2, edits: 1, crashes: 1, lates: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a job that keeps all pods survives delayed writes",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: []string{"fails", "is deleted by force"},
			budget:   spent{failures: 2, lates: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a gang of one replica survives delayed writes",
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, edits: resuming, queueEdits: queue,
			budget: spent{failures: 1, edits: 2, lates: 1}, briefly: 3,
		},
		{
			name:     "a job of one replica survives admission that sometimes removes a label",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1, conflicts: 1, changes: 2}, briefly: 3,
		},
		{
			name:     "a job of one replica survives in-place restarts and label changes",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: restartsInPlace, edits: []edit{pauses},
			budget: all, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a job that restarts as a whole survives in-place restarts and label changes",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt label"}, edits: []edit{pauses, resumes},
			budget: spent{failures: 2, edits: 1, crashes: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "a job whose replicas restart alone survives in-place restarts and label changes",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt label"}, edits: []edit{deletes},
			budget: spent{failures: 2, edits: 1, crashes: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "an elastic job with a rendezvous survives in-place restarts and label changes",
			shape:    model.Elastic(1, 2, "", model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt label"},
			budget:   spent{failures: 2}, briefly: 2, inTurn: true,
		},
		{
			name:     "a job of one replica waits while another owner has one of its names",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"},
			edits:    []edit{takes(model.Pods, "pod"), takes(model.Services, "Service"), pauses, resumes, deletes},
			budget:   spent{failures: 1, edits: 2, crashes: 1}, briefly: 3,
		},
		{
			name:       "a gang of one replica waits while another owner has one of its names",
			shape:      model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures:   []string{"is deleted by force"},
			edits:      []edit{takes(model.Pods, "pod"), pauses, resumes},
			queueEdits: []edit{takes(model.PodGroups, "PodGroup"), deletesGroup},
			budget:     spent{failures: 1, edits: 2}, briefly: 3,
		},
		{
			name:     "a job of one replica that Kueue admits survives every fault",
			shape:    model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{pauses, resumes, deletes},
			kueueEdits: []edit{evicts, deletesWorkload, closesQueue, opensQueue},
			budget:     spent{failures: 1, edits: 2, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1},
			briefly:    2, inTurn: true,
		},
		{
			name:       "a job of two replicas that Kueue admits survives evictions",
			shape:      model.InKueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts, deletesWorkload},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:       "a collective that Kueue admits restarts within its quota",
			shape:      model.InKueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:       "an elastic job that Kueue admits with fewer replicas survives evictions",
			shape:      model.InKueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a held leader of a job that Kueue admits survives evictions",
			shape:    model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			holds:    true,
			failures: []string{"is deleted", "is deleted by force"}, kueueEdits: []edit{evicts, deletesWorkload},
			budget: spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a job that restarts as a whole gives back what a ResourceQuota keeps it from using",
			shape:    model.UnderQuota(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)), 2),
			failures: []string{"fails"}, edits: []edit{takesQuota, freesQuota},
			budget: spent{failures: 1, edits: 2, crashes: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name:     "an elastic job gives back what it cannot use of a ResourceQuota, and trains with less",
			shape:    model.UnderQuota(model.Elastic(2, 3, "", model.Limit(1)), 3),
			failures: []string{"fails"}, edits: []edit{takesQuota, freesQuota},
			budget: spent{failures: 1, edits: 2, crashes: 1}, briefly: 2, inTurn: true, most: 3,
		},
		{
			name: "a job of one replica restarts when its training hangs", added: true,
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "hangs at its start", "fails"}, edits: []edit{pauses, resumes},
			budget: all, briefly: 2,
		},
		{
			name:     "a job of one replica only reports that its training hangs",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyNotify))),
			failures: []string{"hangs", "hangs at its start", "reports a step", "fails"}, edits: []edit{pauses, deletes},
			budget: all, briefly: 2,
		},
		{
			name:  "a training announces its silence, is done, or cannot be read",
			shape: reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{
				"hangs", "hangs at its start", "announces a silence", "reports 100 percent", "cannot be read",
			},
			budget: spent{failures: 3, crashes: 1, ticks: 1}, briefly: 3, inTurn: true,
		},
		{
			name:     "the processes of a training start again in their pod",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"starts again", "hangs", "fails"}, edits: []edit{pauses, resumes},
			budget: spent{failures: 3, edits: 2, crashes: 1}, briefly: 2,
		},
		{
			name:     "a training hangs while the controller is away for a long time",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "fails", "cannot be read"}, edits: []edit{pauses},
			budget: spent{failures: 2, edits: 1, aways: 1}, briefly: 3, inTurn: true,
		},
		{
			name:     "a training without deadlines reports its steps",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"reports a step", "cannot be read", "fails"},
			budget:   spent{failures: 3, crashes: 1, conflicts: 1}, briefly: 3, inTurn: true,
		},
		{
			name: "a training of two replicas that restart together hangs", inTurn: true,
			shape: reporting(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "fails", "is deleted"}, edits: []edit{pauses},
			budget: all, briefly: 1, most: 2,
		},
		{
			name: "a training of two replicas that restart alone hangs while a peer fails", inTurn: true,
			shape: reporting(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "fails"},
			budget:   spent{failures: 2}, briefly: 2,
		},
		{
			name: "a training of two replicas only reports that it hangs while a peer fails", inTurn: true,
			shape: reporting(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyNotify))),
			failures: []string{"hangs", "fails"},
			budget:   spent{failures: 2}, briefly: 2,
		},
		{
			name: "a training hangs while Kueue evicts its job",
			shape: model.InKueue(reporting(model.One(model.OnFailure, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart)))),
			failures: []string{"hangs"}, kueueEdits: []edit{evicts},
			budget: spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
	}
	return append(small, nodeExplorations()...)
}

// reporting returns the shape of a job whose training reports its progress.
var reporting = model.Reporting

// Test explores small jobs of a kind. The coverage selects the jobs and the number of faults in an execution. With
// -explore.everything, an execution has as many faults as the exploration allows.
func Test(t *testing.T, k model.Kind, c model.Coverage) {
	t.Helper()
	for _, x := range explorations() {
		t.Run(x.name, func(t *testing.T) {
			if !k.Runs(x.shape) {
				t.Skip("jobs of this kind do not support the shape")
			}
			if c == model.Quick && x.shape.Replicas > 1 || c == model.Added && !x.added || c == model.Thorough && x.inTurn {
				t.Skip("the exploration takes long: the test of the plain kind runs it, maybe only with full coverage")
			}
			most := 1
			switch {
			case *everything:
				most = cmp.Or(x.most, x.budget.total())
			case c == model.Full:
				most = max(1, x.briefly)
			case c == model.Thorough:
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
			t.Logf("%d states, %d steps, %d states at rest, at most %d faults in one execution, %s",
				got.states, got.steps, got.rests, most, time.Since(started).Round(time.Millisecond))
			if got.wrong != "" {
				t.Fatal(got.wrong)
			}
		})
	}
}

// explorationOptions returns options with short times, so that states differ in few times.
func explorationOptions() controller.Options {
	return controller.Options{
		Settings: view.Settings{
			ClusterDomain: "cluster.local", Image: "controller:test",
			PeerGrace: peerGrace, FailureWindow: 2 * time.Second, NodeLostDelay: 9 * time.Second,
			DependentRetry: dependentRetry, AvoidNodesFor: avoidNodesFor, AvoidNodesPatience: avoidPatience,
		},
		StatusInterval: statusInterval,
	}
}
