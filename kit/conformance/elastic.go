package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// elasticScenarios are scenarios of elastic jobs, with and without a rendezvous.
var elasticScenarios = []scenario{
	{
		name:  "an elastic job scales up and keeps its replicas",
		shape: elastic(1, 2, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), scaled(4), run, keepsMarked,
			exits(1, 0), exits(2, 0), exits(3, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded", "3 Succeeded"},
		},
	},
	{
		name:  "an elastic job scales down to its leader, which keeps running",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), scaled(1), keepsMarked, stands(batchv1beta1.JobPhaseRunning), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "an elastic job first removes replicas that do not run when it scales down",
		shape: elastic(1, 4, scopeReplica, limit(0)),
		steps: []step{
			runs(0, 3), marks(0, 3), stands(batchv1beta1.JobPhaseRunning), scaled(2), keepsMarked,
			passes(10 * time.Second), scaled(3), keepsMarked, runs(1), exits(1, 0), exits(3, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "3 Succeeded"},
		},
	},
	{
		name:  "an elastic job trains with the replicas that fit and ends without the others",
		shape: elastic(2, 4, scopeReplica, limit(0)),
		steps: []step{
			runs(0), stands(batchv1beta1.JobPhasePending), runs(2), stands(batchv1beta1.JobPhaseRunning), passes(time.Minute),
			exits(2, 0), exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "an elastic job does not train without its leader",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			runs(1, 2), stands(batchv1beta1.JobPhasePending), runs(0), stands(batchv1beta1.JobPhaseRunning),
			exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "an elastic job that scales up again uses a new index while the old pod terminates",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(scaled(2), soon(scaled(3))), run, passes(10 * time.Second),
			exits(1, 0), exits(3, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "3 Succeeded"},
		},
	},
	{
		name:  "an elastic job at maxReplicas waits for the old pod before it reuses the index",
		shape: elastic(1, 4, scopeReplica, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(scaled(3), soon(scaled(4))), hasPod(3), run, passes(10 * time.Second),
			exits(1, 0), exits(2, 0), exits(3, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded", "3 Succeeded"},
		},
	},
	{
		name:  "an elastic job removes a replica that has restarted and adds it again",
		shape: elastic(1, 2, scopeReplica),
		steps: []step{
			run, exits(1, 1), run, passes(10 * time.Second), scaled(1), passes(10 * time.Second), scaled(2), run,
			passes(10 * time.Second), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a worker that is killed while its job scales up restarts alone",
		shape: elastic(1, 2, scopeReplica, limit(1)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), together(scaled(3), exits(1, 137)), stands(batchv1beta1.JobPhaseRunning),
			run,
			keepsMarked, exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}, Failure: "1 Error 137 true",
		},
	},
	{
		name:  "a failure does not count if scaling down removes the worker at the same time",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0, 2), passes(10 * time.Second), together(scaled(2), exits(1, 1)), keepsMarked, exits(2, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a failure of a replica that scaling down has removed does not count",
		shape: elastic(1, 2, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), together(scaled(1), soon(exits(1, 1)), soon(scaled(2))), run, keepsMarked,
			passes(10 * time.Second), exits(2, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "an elastic job first removes a worker that waits for its restart",
		shape: elastic(1, 3, scopeReplica),
		steps: []step{
			run, marks(0, 2), passes(10 * time.Second), exits(1, 1), run, exits(1, 1), scaled(2), keepsMarked,
			passes(time.Minute), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2, Pods: []string{"0 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a preemption and a deletion of workers of an elastic job do not count",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), preempted(1), run, passes(10 * time.Second), deleted(2), run, keepsMarked,
			exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a pending pod of an elastic job is recreated when a user deletes it",
		shape: elastic(1, 3, scopeJob, limit(0)),
		steps: []step{
			runs(0, 1), marks(0, 1), passes(10 * time.Second), deleted(2), hasPod(2), keepsMarked,
			exits(1, 0), exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "an elastic job with restart scope Job scales down while it restarts as a whole",
		shape: elastic(1, 3, scopeJob, limit(1)),
		steps: []step{run, passes(10 * time.Second), exits(2, 1), scaled(2), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 3, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "an elastic job with a gap in its indices is paused, scaled and resumed",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			runs(0, 2), passes(10 * time.Second), scaled(2), paused, stands(batchv1beta1.JobPhasePaused), scaled(3),
			stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "all members of a rendezvous restart when one exits with code 1",
		shape: elastic(1, 3, "", limit(1)),
		steps: []step{
			run, passes(10 * time.Second), together(exits(2, 1), soon(exits(1, 1))), stands(batchv1beta1.JobPhasePending),
			run, exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 3,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a killed member of a rendezvous restarts alone",
		shape: elastic(1, 3, "", limit(1)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), exits(2, 137), stands(batchv1beta1.JobPhaseRunning), run, keepsMarked,
			exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "all members of a rendezvous restart when the leader is killed, which counts once",
		shape: elastic(1, 3, "", limit(1)),
		steps: []step{
			run, passes(10 * time.Second), together(exits(1, 1), soon(exits(0, 137)), soon(exits(2, 1))), run,
			exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 3,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}, Failure: "0 Error 137 true",
		},
	},
	{
		name:  "a preemption of the leader of a rendezvous restarts all and does not count",
		shape: elastic(1, 3, "", limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(preempted(0), exits(1, 1), exits(2, 1)), run,
			exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 3,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}, Failure: "0 Preempted 0 false",
		},
	},
	{
		name:  "a job fails when another member of a rendezvous exits with 1 at the backoffLimit",
		shape: elastic(1, 3, "", limit(0)),
		steps: []step{
			run, passes(10 * time.Second), exits(1, 137), stands(batchv1beta1.JobPhaseRunning), passes(time.Minute), exits(2, 1),
		},
		want: result{
			Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"1 Failed", "2 Failed"}, Failure: "2 Error 1 true",
		},
	},
	{
		name:  "an elastic job that has succeeded does not change when the user scales it",
		shape: elastic(1, 2, scopeReplica),
		steps: []step{run, exits(1, 0), exits(0, 0), scaled(1), scaled(4), passes(time.Minute)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
}

// scaled returns a step in which the user changes the expected number of replicas.
func scaled(expected int32) step { return edited(model.Scale(expected)) }
