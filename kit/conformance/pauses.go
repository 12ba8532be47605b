package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// pauseScenarios are scenarios of jobs that are paused.
var pauseScenarios = []scenario{
	{
		name:  "a running job is paused and resumed",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, paused, stands(batchv1beta1.JobPhasePaused), passes(time.Hour),
			resumed, stands(batchv1beta1.JobPhaseResuming), run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job whose replicas restart alone is paused and resumed twice",
		shape: two(never, scopeReplica, limit(0)),
		steps: []step{run, paused, resumed, run, passes(time.Minute), paused, resumed, run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is resumed before its pods are gone",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, together(paused, soon(resumed)), stands(batchv1beta1.JobPhaseResuming), run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is created paused and is paused again before it runs",
		shape: pausing(two(onFailure, scopeJob, limit(0))),
		steps: []step{
			stands(batchv1beta1.JobPhasePaused), passes(time.Minute), resumed, paused, stands(batchv1beta1.JobPhasePaused),
			resumed, run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a resumed job does not wait for a restart delay from before the pause",
		shape: two(onFailure, scopeJob, limit(2)),
		steps: []step{
			run, exits(1, 1), run, exits(1, 1), paused, stands(batchv1beta1.JobPhasePaused),
			resumed, hasPod(1), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 4, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a resumed worker does not wait for its restart delay from before the pause",
		shape: two(onFailure, scopeReplica, limit(2)),
		steps: []step{
			run, exits(1, 1), run, exits(1, 1), paused, stands(batchv1beta1.JobPhasePaused),
			resumed, hasPod(1), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a failure counts although the job is paused at the same time",
		shape: two(onFailure, scopeJob, limit(1)),
		steps: []step{run, together(exits(1, 1), paused), stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 2, Pods: []string{"1 Failed"}},
	},
	{
		name:  "a job succeeds although the user pauses it when its leader succeeds",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(1, 0), exits(0, 0), paused)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a failure that a pause causes does not count",
		shape: two(never, scopeJob, limit(0)),
		steps: []step{
			run, together(paused, soon(exits(1, 1))), stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 0),
			exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name: "workers that succeeded or stayed failed run again after a pause",
		shape: Shape{
			Replicas: 3, RestartPolicy: onFailure,
			RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeReplica, BackoffLimit: new(int32(0))},
		},
		steps: []step{
			run, exits(1, 0), exits(2, 1), paused, stands(batchv1beta1.JobPhasePaused),
			resumed, hasPod(1), hasPod(2), run, exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a job pauses after the pod on a lost node is deleted by force",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, together(losesNode(1), paused), stands(batchv1beta1.JobPhasePending), passes(100 * time.Second),
			stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job that is paused at its deadline gets a new deadline when it is resumed",
		shape: two(onFailure, scopeJob, deadline(60)),
		steps: []step{
			run, passes(50 * time.Second), together(waits(10*time.Second), paused), stands(batchv1beta1.JobPhasePaused),
			passes(time.Hour), stands(batchv1beta1.JobPhasePaused),
			resumed, run, passes(50 * time.Second), stands(batchv1beta1.JobPhaseRunning), passes(10 * time.Second),
		},
		want: result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "a job that is resumed before its pause is complete gets a new deadline",
		shape: two(onFailure, scopeJob, deadline(60)),
		steps: []step{
			run, passes(50 * time.Second), together(paused, soon(resumed)), run, passes(20 * time.Second),
			stands(batchv1beta1.JobPhaseRunning),
			passes(40 * time.Second),
		},
		want: result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "a replica that is added to a paused job is created when the job is resumed",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, paused, edited(func(s *Shape) { s.Replicas = 3 }), stands(batchv1beta1.JobPhasePaused),
			resumed, run, exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a job that is paused and set to 0 replicas together gets its replicas back",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, together(paused, edited(func(s *Shape) { s.Replicas = 0 })), stands(batchv1beta1.JobPhasePaused),
			edited(func(s *Shape) { s.Replicas = 2 }), resumed, run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a worker is removed from a paused job and added again before its pod is gone",
		shape: two(onFailure, scopeReplica, limit(1)),
		steps: []step{
			run, exits(1, 1), run, passes(10 * time.Second),
			together(paused, soon(edited(func(s *Shape) { s.Replicas = 1 })), soon(edited(func(s *Shape) { s.Replicas = 2 })),
				soon(resumed)),
			run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a failed job does not change when the user pauses it",
		shape: two(never, scopeJob, cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{run, exits(1, 1), paused, passes(time.Minute), resumed},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"0 Running", "1 Failed"}},
	},
	{
		name:  "the user deletes a job while it is paused",
		shape: two(onFailure, scopeJob),
		steps: []step{run, paused, jobDeleted},
	},
}

// paused is a step in which the user pauses the job.
func paused(w *world) { edited(model.Pause)(w) }

// resumed is a step in which the user resumes the job.
func resumed(w *world) { edited(model.Resume)(w) }
