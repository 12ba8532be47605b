package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// restartScenarios are lives in which replicas end, fail, and restart.
var restartScenarios = []scenario{
	{
		name:  "both replicas succeed",
		shape: two(onFailure, scopeJob),
		steps: []step{run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the leader succeeds and its peer does not end by itself",
		shape: two(onFailure, scopeJob),
		steps: []step{run, exits(0, 0), passes(40 * time.Second)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:     "the leader succeeds and its peer soon ends",
		shape:    two(onFailure, scopeJob),
		peersEnd: true,
		steps:    []step{run, exits(0, 0), passes(10 * time.Second), exits(1, 1)},
		want:     result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"}},
	},
	{
		name:  "the leader succeeds as its peer fails",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(0, 0), exits(1, 1))},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"}},
	},
	{
		name:  "a collective of three restarts",
		shape: Shape{Replicas: 3, RestartPolicy: onFailure, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeJob}},
		steps: []step{run, exits(2, 1), run, exits(0, 0), passes(40 * time.Second)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 3, Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "all pods are cleaned up after success",
		shape: two(onFailure, scopeJob, cleanUp(batchv1beta1.CleanUpPolicyAll)),
		steps: []step{run, exits(0, 0), passes(40 * time.Second)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded"},
	},
	{
		name:  "no pod is cleaned up after success",
		shape: two(onFailure, scopeJob, cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{run, exits(0, 0), passes(time.Minute), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a collective restarts, and again after a while, and succeeds",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, exits(1, 1),
			run, exits(0, 1), passes(15 * time.Second),
			run, together(exits(1, 0), exits(0, 0)),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 4,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a kubelet restarts a main container in its pod, which is a failure",
		shape: two(onFailure, scopeJob),
		steps: []step{run, restartsInPlace(1, 3), run, together(exits(1, 0), exits(0, 0))},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Failure: "1 Error 3 true",
		},
	},
	{
		name:  "the members of a collective fail together",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(0, 1), exits(1, 1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the kubelet of a peer reports first, and then that of the member that was killed",
		shape: two(exitCode, scopeJob),
		steps: []step{run, together(exits(0, 1), soon(exits(1, 137))), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Failure: "1 Error 137 true",
		},
	},
	{
		name:  "both launchers end with 1 in the same second, and the second names a rank that was killed",
		shape: two(onFailure, scopeJob, limit(0), cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{
			run, together(printsAndExits(0, rankEnded(0, 1)), soon(printsAndExits(1, rankEnded(2, -9)))),
		},
		want: result{
			Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"0 Failed", "1 Failed"},
			Failure: "1 Error 1 true rank 2 SIGKILL",
		},
	},
	{
		name:  "a replica that only lost its peer ends first, and the one that raised an exception after it",
		shape: two(onFailure, scopeJob, limit(0), cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{
			run, together(printsAndExits(0, lostPeer), soon(printsAndExits(1, "ValueError: the data has no labels"))),
		},
		want: result{
			Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"0 Failed", "1 Failed"},
			Failure: "1 Error 1 true",
		},
	},
	{
		name:  "a pod that failed is deleted before its peers have reported",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(exits(1, 3), soon(vanishes(1)))},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Failure: "1 Error 3 true"},
	},
	{
		name:  "a member fails, and another is preempted long after, before the controller sees either",
		shape: two(exitCode, scopeJob),
		steps: []step{run, together(exits(0, 1), waits(time.Minute), preempted(1))},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"0 Failed"}, Failure: "0 Error 1 true"},
	},
	{
		name:  "a collective reaches the limit and is cleaned up",
		shape: two(onFailure, scopeJob, limit(1)),
		steps: []step{run, exits(1, 1), run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 2, Pods: []string{"1 Failed"}},
	},
	{
		name:  "a collective reaches the limit and keeps its pods",
		shape: two(onFailure, scopeJob, limit(0), cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"0 Running", "1 Failed"}},
	},
	{
		name:  "a worker restarts alone, and again after a while",
		shape: two(onFailure, scopeReplica),
		steps: []step{run, exits(1, 1), run, exits(1, 1), passes(15 * time.Second), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the leader restarts alone until the limit",
		shape: two(onFailure, scopeReplica, limit(1)),
		steps: []step{run, exits(0, 1), run, exits(0, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Failed"}},
	},
	{
		name:  "a worker stays failed at the limit, and the leader decides",
		shape: two(onFailure, scopeReplica, limit(1)),
		steps: []step{run, exits(1, 1), run, exits(1, 1), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Failed"},
		},
	},
	{
		name:  "both replicas fail and restart, each counted",
		shape: two(onFailure, scopeReplica),
		steps: []step{run, together(exits(0, 1), exits(1, 1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "an exit code is retryable, the next is permanent",
		shape: two(exitCode, scopeJob),
		steps: []step{run, exits(1, 137), run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Backoff: 1, Restarts: 2, Pods: []string{"1 Failed"}},
	},
	{
		name:  "a replica is never restarted",
		shape: two(never, scopeJob),
		steps: []step{run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"1 Failed"}},
	},
	{
		name:  "a worker that succeeded runs again",
		shape: two(always, scopeReplica),
		steps: []step{
			run, exits(1, 0), run, exits(1, 0), passes(15 * time.Second), run, exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "a worker succeeds and runs again while another waits to",
		shape: Shape{Replicas: 3, RestartPolicy: always, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeReplica}},
		steps: []step{
			run, exits(1, 0), run, exits(1, 0), exits(2, 0),
			passes(15 * time.Second), run, exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 3, Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "a collective is preempted and restarts for free",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, preempted(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a preempted member takes its peers with it, for free",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(preempted(1), exits(0, 1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a worker is preempted and restarts for free",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{run, preempted(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a node rejects a pod, which is created again for free",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{rejected(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the node of a member is lost, and its pod deleted by force",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, losesNode(1), passes(100 * time.Second), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the node of the leader is lost, which is never restarted",
		shape: two(never, scopeReplica),
		steps: []step{run, losesNode(0), passes(100 * time.Second)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure"},
	},
	{
		name:  "somebody deletes the leader's pod",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, deleted(0), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody deletes a worker's pod by force",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, vanishes(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody deletes the leader's pod by force before the job runs",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{vanishes(0), run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "somebody deletes a worker's pod where replicas restart alone",
		shape: two(never, scopeReplica, limit(0)),
		steps: []step{run, deleted(1), run, vanishes(1), passes(15 * time.Second), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody takes the kind of job off a worker's pod, which is replaced",
		shape: two(onFailure, scopeJob, limit(0)),
		late:  time.Minute, // which is how far apart the tries may be
		steps: []step{
			run, unlabelled(1, batchv1beta1.LabelJobKind), passes(time.Minute),
			run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody takes the name of the job off a worker's pod, which counts as deleted when a peer fails",
		shape: two(onFailure, scopeJob),
		late:  time.Minute,
		steps: []step{
			run, unlabelled(1, batchv1beta1.LabelJobName), exits(0, 1), passes(time.Minute),
			run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody takes the kind of job off a worker's pod whose node is lost",
		shape: two(onFailure, scopeReplica, limit(0)),
		late:  2 * time.Minute,
		steps: []step{
			run, together(unlabelled(1, batchv1beta1.LabelJobKind), losesNode(1)), passes(5 * time.Minute),
			run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody takes a label off the Service, which does not keep the job from restarting",
		shape: two(onFailure, scopeJob),
		steps: []step{run, serviceUnlabelled, exits(1, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
}
