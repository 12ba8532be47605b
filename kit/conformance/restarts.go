package conformance

import (
	"fmt"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/trainlog"
)

// restartScenarios are scenarios in which replicas end, fail and restart.
var restartScenarios = []scenario{
	{
		name:  "both replicas succeed",
		shape: two(onFailure, scopeJob),
		steps: []step{run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the leader succeeds and its peer keeps running",
		shape: two(onFailure, scopeJob),
		steps: []step{run, exits(0, 0), passes(40 * time.Second)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:     "the leader succeeds and its peer ends soon after",
		shape:    two(onFailure, scopeJob),
		peersEnd: true,
		steps:    []step{run, exits(0, 0), passes(10 * time.Second), exits(1, 1)},
		want:     result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"}},
	},
	{
		name:  "the leader succeeds while its peer fails",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(0, 0), exits(1, 1))},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"}},
	},
	{
		name:  "a collective of three replicas restarts",
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
		name:  "a collective restarts twice and succeeds",
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
		name:  "an in-place restart of the main container counts as a failure",
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
		name:  "a killed member is the root cause although the failure of its peer is reported first",
		shape: two(exitCode, scopeJob),
		steps: []step{run, together(exits(0, 1), soon(exits(1, 137))), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Failure: "1 Error 137 true",
		},
	},
	{
		name:  "the launcher that reports a killed rank is the root cause when two launchers exit with 1",
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
		name:  "a replica that raised an exception is the root cause, not a peer that lost its connection",
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
		name:  "a failure that the supervisors of all replicas saw first is the root cause before its peers have reported",
		shape: two(onFailure, scopeJob, limit(0), cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{
			run, together(printsAndExits(1, rankEnded(2, 3)+"\nsupervise: "+trainlog.FirstReport), soon(exits(0, 137))),
		},
		want: result{
			Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"0 Failed", "1 Failed"},
			Failure: "1 Error 1 true",
		},
	},
	{
		name:  "a failure counts although its pod is deleted before the peers have reported",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(exits(1, 3), soon(vanishes(1)))},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Failure: "1 Error 3 true"},
	},
	{
		name:  "a failure is the root cause although a later preemption is seen at the same time",
		shape: two(exitCode, scopeJob),
		steps: []step{run, together(exits(0, 1), waits(time.Minute), preempted(1))},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"0 Failed"}, Failure: "0 Error 1 true"},
	},
	{
		name:  "a collective reaches its backoffLimit and is cleaned up",
		shape: two(onFailure, scopeJob, limit(1)),
		steps: []step{run, exits(1, 1), run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 2, Pods: []string{"1 Failed"}},
	},
	{
		name:  "a collective reaches its backoffLimit and keeps its pods",
		shape: two(onFailure, scopeJob, limit(0), cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"0 Running", "1 Failed"}},
	},
	{
		name:  "a worker restarts alone twice",
		shape: two(onFailure, scopeReplica),
		steps: []step{run, exits(1, 1), run, exits(1, 1), passes(15 * time.Second), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the leader restarts alone until the job reaches its backoffLimit",
		shape: two(onFailure, scopeReplica, limit(1)),
		steps: []step{run, exits(0, 1), run, exits(0, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Failed"}},
	},
	{
		name:  "a worker stays failed at the backoffLimit, and the leader decides how the job ends",
		shape: two(onFailure, scopeReplica, limit(1)),
		steps: []step{run, exits(1, 1), run, exits(1, 1), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Failed"},
		},
	},
	{
		name:  "both replicas fail and restart alone, and both failures count",
		shape: two(onFailure, scopeReplica),
		steps: []step{run, together(exits(0, 1), exits(1, 1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "exit code 137 restarts the job and exit code 1 fails it under restart policy ExitCode",
		shape: two(exitCode, scopeJob),
		steps: []step{run, exits(1, 137), run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Backoff: 1, Restarts: 2, Pods: []string{"1 Failed"}},
	},
	{
		name:  "a failure ends the job under restart policy Never",
		shape: two(never, scopeJob),
		steps: []step{run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"1 Failed"}},
	},
	{
		name:  "a worker that succeeds restarts under restart policy Always",
		shape: two(always, scopeReplica),
		steps: []step{
			run, exits(1, 0), run, exits(1, 0), passes(15 * time.Second), run, exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "two workers that succeed restart independently under restart policy Always",
		shape: Shape{Replicas: 3, RestartPolicy: always, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeReplica}},
		steps: []step{
			run, exits(1, 0), run, exits(1, 0), exits(2, 0),
			passes(15 * time.Second), run, exits(0, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 3, Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "a collective restarts after a preemption, which does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, preempted(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a preemption makes a peer fail, and the restart does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(preempted(1), exits(0, 1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a worker restarts alone after a preemption, which does not count",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{run, preempted(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a pod that its node rejects is recreated, which does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{rejected(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a collective restarts after the pod on a lost node is deleted by force",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, losesNode(1), passes(100 * time.Second), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job fails when the node of its leader is lost under restart policy Never",
		shape: two(never, scopeReplica),
		steps: []step{run, losesNode(0), passes(100 * time.Second)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure"},
	},
	{
		name:  "a collective restarts when a user deletes the pod of the leader",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, deleted(0), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a collective restarts when a user deletes the pod of a worker by force",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, vanishes(1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the pod of the leader is recreated when a user deletes it by force before the job runs",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{vanishes(0), run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a worker restarts alone each time that a user deletes its pod",
		shape: two(never, scopeReplica, limit(0)),
		steps: []step{run, deleted(1), run, vanishes(1), passes(15 * time.Second), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a worker whose pod loses the job-kind label gets a new pod",
		shape: two(onFailure, scopeJob, limit(0)),
		late:  time.Minute, // the longest backoff between two attempts to create a pod
		steps: []step{
			run, unlabeled(1, batchv1beta1.LabelJobKind), passes(time.Minute),
			run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a pod that lost the job-name label is treated as deleted when its peer fails",
		shape: two(onFailure, scopeJob),
		late:  time.Minute,
		steps: []step{
			run, unlabeled(1, batchv1beta1.LabelJobName), exits(0, 1), passes(time.Minute),
			run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a worker whose pod loses the job-kind label and its node gets a new pod",
		shape: two(onFailure, scopeReplica, limit(0)),
		late:  2 * time.Minute,
		steps: []step{
			run, together(unlabeled(1, batchv1beta1.LabelJobKind), losesNode(1)), passes(5 * time.Minute),
			run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job restarts although a user removes a label from its Service",
		shape: two(onFailure, scopeJob),
		steps: []step{run, serviceUnlabeled, exits(1, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
}

// rankEnded returns the output of torchrun for a rank that failed.
func rankEnded(rank, code int) string {
	return fmt.Sprintf(`torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_12:00:00
  rank      : %d (local_rank: 0)
  exitcode  : %d (pid: 17)
============================================================`, rank, code)
}

// lostPeer is the exception of a rank that lost the connection to its peer.
const lostPeer = `Traceback (most recent call last):
  File "/code/train.py", line 16, in main
RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:49873`
