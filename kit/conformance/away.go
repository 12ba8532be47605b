package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// awayScenarios are scenarios in which events happen while no controller runs.
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
		name:  "a failure is not counted if its pod is deleted by force while no controller runs",
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
		name:  "a job restarts after all its pods are drained while no controller runs",
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
		name:  "a job succeeds if its leader succeeds and the peer is deleted while no controller runs",
		shape: two(onFailure, scopeJob),
		steps: []step{run, passes(10 * time.Second), away(exits(0, 0), passes(time.Hour), deleted(1))},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "a job fails if its deadline passes while no controller runs",
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
		name:  "a job keeps its pods if it is paused and resumed while no controller runs",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), away(paused, passes(time.Hour), resumed), keepsMarked,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the user deletes and recreates a job while no controller runs",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, passes(10 * time.Second), away(jobDeleted, createdAgain), passes(2 * time.Minute), run,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a gang restarts after its pods and PodGroup are deleted while no controller runs",
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

// createdAgain is a step in which the user recreates the job.
func createdAgain(w *world) { w.create(w.newJob(w.shape)) }

// away returns a step that stops the controller, runs other steps without it, and starts a new controller process.
func away(steps ...step) step {
	return func(w *world) {
		w.t.Helper()
		w.settle()
		w.away, w.RequeueAt = true, time.Time{}
		for _, step := range steps {
			step(w)
			w.settle()
		}
		w.away = false
		w.start(nil)
	}
}
