package conformance

import (
	"time"

	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// Texts that describe the Workload of a job that has succeeded. The text requeued is for a job that Kueue has evicted
// and admitted again.
const (
	succeeded = "job for 2: Admitted, Finished (Succeeded), QuotaReserved"
	requeued  = succeeded + ", Requeued (Preempted)"
)

// kueueScenarios are scenarios of jobs that Kueue admits.
var kueueScenarios = []scenario{
	{
		name:  "a job that Kueue has admitted restarts without another admission",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{hasWorkload(true), run, exits(1, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods:      []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{succeeded},
		},
	},
	{
		name:  "the failure of a job is reported to Kueue",
		shape: inKueue(two(never, scopeJob)),
		steps: []step{run, exits(1, 1)},
		want: result{
			Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"1 Failed"},
			Workloads: []string{"job for 2: Admitted, Finished (Failed), QuotaReserved"},
		},
	},
	{
		name:   "a job waits for Kueue without a limit of time",
		shape:  inKueue(two(onFailure, scopeJob, deadline(60))),
		before: []step{closes},
		steps: []step{
			stands(batchv1beta1.JobPhasePending), passes(2 * time.Minute), opens, run, passes(30 * time.Second), exits(1, 0),
			exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{succeeded},
		},
	},
	{
		name:  "a job that Kueue evicts stops, and runs again when it is admitted",
		shape: inKueue(two(onFailure, scopeJob, limit(0))),
		steps: []step{run, evicts, run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{requeued},
		},
	},
	{
		name:  "a job whose replicas restart alone stops when Kueue evicts it",
		shape: inKueue(two(onFailure, scopeReplica)),
		steps: []step{
			run, exits(1, 1), evicts, closes, passes(time.Minute), stands(batchv1beta1.JobPhasePending), opens, run, exits(1, 0),
			exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods:      []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{requeued},
		},
	},
	{
		name:  "a failure that happens with an eviction counts",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, together(evicts, exits(1, 1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods:      []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{requeued},
		},
	},
	{
		name:  "a job succeeds if its leader succeeds with an eviction",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, together(evicts, exits(0, 0))},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"},
			Workloads: []string{
				"job for 2: Admitted, Evicted (Preempted), Finished (Succeeded), QuotaReserved",
			},
		},
	},
	{
		name:  "a job that Kueue has admitted is paused and resumed with more replicas",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{
			run, paused, hasWorkload(false), edited(func(s *Shape) { s.Replicas = 3 }), resumed, hasWorkload(true), run,
			exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
			Workloads: []string{"job for 3: Admitted, Finished (Succeeded), QuotaReserved"},
		},
	},
	{
		name:  "a replica of a collective that has succeeded keeps its quota, since it can run again",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, exits(1, 0), exits(0, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 Error 1 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Workloads: []string{succeeded},
		},
	},
	{
		name:  "a replica that has failed keeps its quota, since it runs again if the backoffLimit is raised",
		shape: inKueue(two(onFailure, scopeReplica, limit(0))),
		steps: []step{
			run, exits(1, 1), edited(func(s *Shape) { s.RunPolicy.BackoffLimit = new(int32(1)) }), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Failure: "1 Error 1 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Workloads: []string{succeeded},
		},
	},
	{
		name:  "a job that needs a replica again whose quota an earlier version gave back stops until it is admitted again",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, exits(1, 0), gaveBack, exits(0, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 Error 1 true",
			Pods:      []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{succeeded + ", Requeued (QuotaGivenBack)"},
		},
	},
	{
		name:  "a job is paused just when Kueue evicts it",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, together(evicts, paused), hasWorkload(false), resumed, run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{succeeded},
		},
	},
	{
		name:  "a job whose Workload a user deletes gets another one, and other pods",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, passes(time.Minute), workloadDeleted, hasWorkload(true), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{succeeded},
		},
	},
	{
		name:  "the Workload is deleted with its job",
		shape: inKueue(two(onFailure, scopeJob)),
		steps: []step{run, jobDeleted},
	},
	{
		name:   "a job starts once a Workload with another owner no longer has its name",
		shape:  inKueue(two(onFailure, scopeJob)),
		before: []step{taken(model.Workloads)},
		steps: []step{
			passes(2 * time.Minute), stands(batchv1beta1.JobPhasePending), reportsOwner, freed(model.Workloads),
			passes(2 * time.Minute), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{succeeded},
		},
	},
}

// kueueActions returns the actions of Kueue and the changes to the Workload of the job.
func (w *walk) kueueActions() map[string]func(*rapid.T) {
	withdrawn := func(happens bool) {
		if happens {
			w.withdrawn++
		}
	}
	return map[string]func(*rapid.T){
		"Kueue considers the Workload":        func(*rapid.T) { w.Cluster.ConsiderWorkload(w.closed) },
		"Kueue evicts the job":                func(*rapid.T) { withdrawn(w.Cluster.Evict()) },
		"a user deactivates the Workload":     func(*rapid.T) { withdrawn(w.Cluster.Deactivate()) },
		"a user activates the Workload again": func(*rapid.T) { w.Cluster.Activate() },
		"a user deletes the Workload": func(*rapid.T) {
			if workload := w.Cluster.Live().Workload(); workload != nil {
				withdrawn(true)
				w.remove(workload)
			}
		},
		"the queue closes or opens": func(*rapid.T) { w.closed = !w.closed },
	}
}

// evicts is a step in which Kueue evicts the job.
func evicts(w *world) {
	w.t.Helper()
	if !w.Cluster.Evict() {
		w.t.Fatalf("there is no admitted Workload: %s", w.describe())
	}
}

// gaveBack is a step that gives the quota of a replica back to Kueue, although the replica can still run again.
// Earlier versions of the controller did so.
func gaveBack(w *world) {
	w.t.Helper()
	if !w.Cluster.ReclaimTooMuch() {
		w.t.Fatalf("there is no admitted Workload: %s", w.describe())
	}
}

// hasWorkload returns a step that checks that there is a Workload, or that there is none if want is false.
func hasWorkload(want bool) step {
	return func(w *world) {
		w.t.Helper()
		if workload := w.Cluster.Live().Workload(); (workload != nil) != want {
			w.t.Errorf("the Workload is %+v, want one: %t: %s", workload, want, w.describe())
		}
	}
}

// workloadDeleted is a step in which a user deletes the Workload.
func workloadDeleted(w *world) {
	w.t.Helper()
	w.remove(w.Cluster.Live().Workload())
}
