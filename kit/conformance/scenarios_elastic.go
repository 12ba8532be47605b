package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// elasticScenarios are lives of jobs that are scaled, or whose replicas meet at a rendezvous.
var elasticScenarios = []scenario{
	{
		name:  "an elastic job grows, and its replicas stay",
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
		name:  "an elastic job shrinks to its leader, which stays",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), scaled(1), keepsMarked, stands(batchv1beta1.JobPhaseRunning), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "an elastic job that shrinks gives up first what does not run",
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
		name:  "an elastic job trains with what fits, and is not held up by the rest in the end",
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
		name:  "an elastic job grows again before the pod that it gave up is gone, by another index",
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
		name:  "an elastic job grows to its limit before the pod that it gave up is gone, which it waits for",
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
		name:  "an elastic job gives up a replica that has restarted, and gets it back",
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
		name:  "a worker is killed as its job grows, and restarts alone",
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
		name:  "a worker fails as its job shrinks, and is given up, which does not count",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0, 2), passes(10 * time.Second), together(scaled(2), exits(1, 1)), keepsMarked, exits(2, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a replica that an elastic job gave up fails on its way out, which does not count",
		shape: elastic(1, 2, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), together(scaled(1), soon(exits(1, 1)), soon(scaled(2))), run, keepsMarked,
			passes(10 * time.Second), exits(2, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a worker that waits for its restart is the first that an elastic job gives up",
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
		name:  "a worker of an elastic job is preempted, and somebody deletes another, for free",
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
		name:  "somebody deletes a pod of an elastic job that does not run, which is created again",
		shape: elastic(1, 3, scopeJob, limit(0)),
		steps: []step{
			runs(0, 1), marks(0, 1), passes(10 * time.Second), deleted(2), hasPod(2), keepsMarked,
			exits(1, 0), exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "an elastic job restarts as one, if it is asked to, and shrinks meanwhile",
		shape: elastic(1, 3, scopeJob, limit(1)),
		steps: []step{run, passes(10 * time.Second), exits(2, 1), scaled(2), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 3, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "an elastic job that shrank unevenly is paused, scaled and resumed",
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
		name:  "a member of a rendezvous gives up, which ends it for all",
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
		name:  "a member of a rendezvous is killed, and replaced alone",
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
		name:  "the leader of a rendezvous is killed, of which its peers die, which counts once",
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
		name:  "the leader of a rendezvous is preempted, of which its peers die, for free",
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
		name:  "a member of a rendezvous is killed at the limit and stays failed, and another gives up",
		shape: elastic(1, 3, "", limit(0)),
		steps: []step{
			run, passes(10 * time.Second), exits(1, 137), stands(batchv1beta1.JobPhaseRunning), passes(time.Minute), exits(2, 1),
		},
		want: result{
			Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"1 Failed", "2 Failed"}, Failure: "2 Error 1 true",
		},
	},
	{
		name:  "the user scales an elastic job that has succeeded, which stays as it is",
		shape: elastic(1, 2, scopeReplica),
		steps: []step{run, exits(1, 0), exits(0, 0), scaled(1), scaled(4), passes(time.Minute)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
}
