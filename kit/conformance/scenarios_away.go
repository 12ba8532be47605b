package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// awayScenarios are lives in which no controller runs while things happen.
var awayScenarios = []scenario{
	{
		name:  "a worker fails while no controller runs, and its failure counts once",
		shape: two(onFailure, scopeJob, limit(1)),
		steps: []step{
			run, passes(10 * time.Second), away(exits(1, 1), passes(time.Hour)), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a worker fails and its pod is deleted by force while no controller runs, which nothing is left to tell of",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), away(exits(1, 1), vanishes(1), passes(time.Hour)), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "all pods are drained while no controller runs, and the job restarts",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), away(deleted(0), deleted(1), passes(time.Hour)), run,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the leader succeeds while no controller runs, and the pod of its peer is deleted",
		shape: two(onFailure, scopeJob),
		steps: []step{run, passes(10 * time.Second), away(exits(0, 0), passes(time.Hour), deleted(1))},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "the deadline is over while no controller runs",
		shape: two(onFailure, scopeJob, deadline(60), timeToLive(3600)),
		steps: []step{run, away(passes(time.Hour))},
		want:  result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "a finished job expires while no controller runs",
		shape: two(onFailure, scopeJob, timeToLive(60)),
		steps: []step{run, exits(1, 0), exits(0, 0), away(passes(time.Hour))},
	},
	{
		name:  "a job is paused and resumed while no controller runs, which keeps its pods",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), away(paused, passes(time.Hour), resumed), keepsMarked,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the user deletes a job while no controller runs, and creates another of its name",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, passes(10 * time.Second), away(jobDeleted, createdAgain), passes(2 * time.Minute), run,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a gang is drained and its PodGroup deleted while no controller runs",
		shape: inQueue(two(onFailure, scopeJob, limit(0))),
		steps: []step{
			run, passes(10 * time.Second), away(deleted(0), vanishes(1), groupDeleted, passes(time.Hour)), hasGroup(2), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
}

// createdAgain lets the user create the job once more.
func createdAgain(w *world) { w.create(w.newJob(w.shape)) }

// away lets the controller end, steps happen without it, and another controller start.
func away(steps ...step) step {
	return func(w *world) {
		w.t.Helper()
		w.settle()
		w.away, w.wakeAt = true, time.Time{}
		for _, step := range steps {
			step(w)
			w.settle()
		}
		w.away = false
		w.start(nil)
	}
}
