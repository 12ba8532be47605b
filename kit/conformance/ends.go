package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// endScenarios are scenarios about the end of jobs: by a deadline, the TTL, the user, or the success of the leader.
var endScenarios = []scenario{
	{
		name:  "the deadline ends a running job",
		shape: two(onFailure, scopeJob, deadline(60)),
		steps: []step{run, passes(time.Minute)},
		want:  result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "the deadline ends a job that waits for its restart",
		shape: two(onFailure, scopeJob, deadline(60)),
		steps: []step{run, exits(0, 1), run, passes(55 * time.Second), exits(0, 1), passes(10 * time.Second)},
		want:  result{Phase: "Failed", Reason: "DeadlineExceeded", Backoff: 2, Restarts: 4},
	},
	{
		name:  "the user sets a deadline for a running job",
		shape: two(onFailure, scopeJob),
		steps: []step{run, passes(time.Minute), edited(policies(deadline(90))), passes(time.Minute)},
		want:  result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "the user lowers backoffLimit and sets cleanUpPolicy All",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, exits(1, 1), run, edited(policies(limit(1), cleanUp(batchv1beta1.CleanUpPolicyAll))), exits(1, 1),
		},
		want: result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 2},
	},
	{
		name:  "a job that succeeded is deleted after its TTL",
		shape: two(onFailure, scopeJob, timeToLive(120)),
		steps: []step{run, exits(1, 0), exits(0, 0), passes(2 * time.Minute)},
	},
	{
		name:  "a job that failed expires while its pods are cleaned up",
		shape: two(never, scopeJob, timeToLive(0)),
		steps: []step{run, exits(1, 1)},
	},
	{
		name:  "a job restarts when all its nodes shut down and its programs exit with 0",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(nodeShutDown(0), nodeShutDown(1)), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:     "a job whose leader succeeded finishes when the peer has ended",
		shape:    two(onFailure, scopeJob),
		peersEnd: true,
		steps: []step{
			run, exits(0, 0), decided(batchv1beta1.ConditionSuccessCriteriaMet), passes(10 * time.Second),
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), stands(batchv1beta1.JobPhaseSucceeded),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:     "a job whose leader succeeded finishes when the grace period of the peer is over",
		shape:    two(onFailure, scopeJob),
		peersEnd: true,
		steps: []step{
			run, exits(0, 0), passes(25 * time.Second), stands(batchv1beta1.JobPhaseRunning), passes(10 * time.Second),
			stands(batchv1beta1.JobPhaseSucceeded),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:     "a job succeeds despite a failure, a pause and a deadline after its leader succeeded",
		shape:    two(onFailure, scopeJob, deadline(60)),
		peersEnd: true,
		steps: []step{
			run, passes(40 * time.Second), exits(0, 0), paused, stands(batchv1beta1.JobPhaseRunning), exits(1, 1),
			passes(time.Minute), resumed, passes(time.Minute),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"}},
	},
	{
		name:  "a failed job finishes only after the pod on a lost node is deleted by force",
		shape: two(never, scopeJob),
		steps: []step{
			run, losesNode(1), decided(batchv1beta1.ConditionFailureTarget), passes(80 * time.Second),
			stands(batchv1beta1.JobPhaseRunning), passes(20 * time.Second), stands(batchv1beta1.JobPhaseFailed),
		},
		want: result{Phase: "Failed", Reason: "PermanentFailure"},
	},
	{
		name:  "a job that keeps its pods finishes although a peer still runs",
		shape: two(onFailure, scopeReplica, cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{run, exits(0, 0), stands(batchv1beta1.JobPhaseSucceeded)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Running"}},
	},
	{
		name:  "the user deletes a job whose end is decided while a peer runs",
		shape: two(onFailure, scopeJob),
		steps: []step{run, exits(0, 0), jobDeleted},
	},
	{
		name:  "the user deletes the job while it runs",
		shape: two(onFailure, scopeJob),
		steps: []step{run, jobDeleted},
	},
	{
		name:  "the user deletes the job while it restarts",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(1, 1), jobDeleted)},
	},
}
