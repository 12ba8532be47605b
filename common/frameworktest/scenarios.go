package frameworktest

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// scenario is the life of a job.
type scenario struct {
	name  string
	shape Shape
	// before the job is created, these happen.
	before []step
	// steps happen one after the other once the job is created.
	steps []step
	// late is how much later things may happen if something goes wrong, if that is more than the usual.
	late time.Duration
	// want is how it ends.
	want result
}

const (
	onFailure = batchv1beta1.RestartPolicyOnFailure
	never     = batchv1beta1.RestartPolicyNever
	always    = batchv1beta1.RestartPolicyAlways
	exitCode  = batchv1beta1.RestartPolicyExitCode

	scopeJob     = batchv1beta1.RestartScopeJob
	scopeReplica = batchv1beta1.RestartScopeReplica
)

// two returns the shape of a job of two replicas.
func two(restart batchv1beta1.RestartPolicy, scope batchv1beta1.RestartScope, options ...func(*batchv1beta1.RunPolicy)) Shape {
	s := Shape{Replicas: 2, RestartPolicy: restart, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scope}}
	for _, option := range options {
		option(&s.RunPolicy)
	}
	return s
}

// elastic returns the shape of a job that expects some replicas, of at most 4, and can run with fewer.
func elastic(least, expected int32, scope batchv1beta1.RestartScope, options ...func(*batchv1beta1.RunPolicy)) Shape {
	s := two(onFailure, scope, options...)
	s.Elastic = &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(4)), ExpectedReplicas: &expected}
	return s
}

// twoWithTensorBoard returns the shape of a job of two replicas, which are a collective, with a TensorBoard of image tb:1.
func twoWithTensorBoard() Shape {
	s := two(onFailure, scopeJob)
	s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: "tb:1"}
	return s
}

// inQueue returns a shape with a job that is scheduled as a gang.
func inQueue(s Shape) Shape {
	s.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
	return s
}

// policies changes the run policy of a shape.
func policies(options ...func(*batchv1beta1.RunPolicy)) func(*Shape) {
	return func(s *Shape) {
		for _, option := range options {
			option(&s.RunPolicy)
		}
	}
}

func limit(n int32) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.BackoffLimit = &n }
}

func cleanUp(policy batchv1beta1.CleanUpPolicy) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.CleanUpPolicy = policy }
}

func deadline(seconds int64) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.ActiveDeadlineSeconds = &seconds }
}

func timeToLive(seconds int32) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.TTLSecondsAfterFinished = &seconds }
}

// scenarios are the lives that a job may have. Each is a sequence of steps between which the controller rests.
var scenarios = []scenario{
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
		name:  "the leader succeeds and its peer soon ends",
		shape: two(onFailure, scopeJob),
		steps: []step{run, exits(0, 0), passes(10 * time.Second), exits(1, 1)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"}},
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
			run, together(exits(0, 0), exits(1, 0)),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 4,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the members of a collective fail together",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(0, 1), exits(1, 1)), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the kubelet of a peer reports first, and then that of the member that was killed",
		shape: two(exitCode, scopeJob),
		steps: []step{run, together(exits(0, 1), soon(exits(1, 137))), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Failure: "1 Error 137 true",
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
		steps: []step{run, together(exits(0, 1), exits(1, 1)), run, exits(0, 0), exits(1, 0)},
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
		steps: []step{run, exits(1, 0), run, exits(1, 0), passes(15 * time.Second), run, exits(0, 0), passes(40 * time.Second)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded"}},
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
		steps: []step{run, preempted(1), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a preempted member takes its peers with it, for free",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(preempted(1), exits(0, 1)), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a worker is preempted and restarts for free",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{run, preempted(1), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a node rejects a pod, which is created again for free",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{rejected(1), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the node of a member is lost, and its pod deleted by force",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, losesNode(1), passes(100 * time.Second), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
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
		steps: []step{run, deleted(0), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "somebody deletes a worker's pod by force",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, vanishes(1), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "somebody deletes the leader's pod by force before the job runs",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{vanishes(0), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "somebody deletes a worker's pod where replicas restart alone",
		shape: two(never, scopeReplica, limit(0)),
		steps: []step{run, deleted(1), run, vanishes(1), passes(15 * time.Second), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the deadline ends a job that runs",
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
		name:  "the user sets a deadline for a job that runs",
		shape: two(onFailure, scopeJob),
		steps: []step{run, passes(time.Minute), edited(policies(deadline(90))), passes(time.Minute)},
		want:  result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "the user lowers the limit and asks for all pods to be cleaned up",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, exits(1, 1), run, edited(policies(limit(1), cleanUp(batchv1beta1.CleanUpPolicyAll))), exits(1, 1),
		},
		want: result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 2},
	},
	{
		name:  "the time to live of a job that succeeded is over",
		shape: two(onFailure, scopeJob, timeToLive(120)),
		steps: []step{run, exits(1, 0), exits(0, 0), passes(2 * time.Minute)},
	},
	{
		name:  "the time to live of a job that failed is over while it is cleaned up",
		shape: two(never, scopeJob, timeToLive(0)),
		steps: []step{run, exits(1, 1)},
	},
	{
		name:   "a pod of somebody else is in the way for a while",
		before: []step{foreignPod},
		shape:  two(onFailure, scopeJob),
		late:   time.Minute, // which is how far apart the tries may be
		steps:  []step{passes(30 * time.Second), foreignPodGoes, passes(2 * time.Minute), hasPod(1), run, exits(0, 0), exits(1, 0)},
		want:   result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the deadline ends a job that somebody else's pod is in the way of",
		before: []step{foreignPod},
		shape:  two(onFailure, scopeJob, deadline(100)),
		steps:  []step{passes(105 * time.Second), stands(batchv1beta1.JobPhaseFailed)},
		want:   result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "the nodes of all replicas shut down, and their programs exit with 0",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, together(nodeShutDown(0), nodeShutDown(1)), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
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
	{
		name:  "a job that runs is paused and resumed",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, paused, stands(batchv1beta1.JobPhasePaused), passes(time.Hour),
			resumed, stands(batchv1beta1.JobPhaseResuming), run, stands(batchv1beta1.JobPhaseRunning), exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job whose replicas restart alone is paused and resumed, twice",
		shape: two(never, scopeReplica, limit(0)),
		steps: []step{run, paused, resumed, run, passes(time.Minute), paused, resumed, run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is resumed before its pods are gone",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{run, together(paused, soon(resumed)), stands(batchv1beta1.JobPhaseResuming), run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is created paused, and paused again before it runs",
		shape: pausing(two(onFailure, scopeJob, limit(0))),
		steps: []step{
			stands(batchv1beta1.JobPhasePaused), passes(time.Minute), resumed, paused, stands(batchv1beta1.JobPhasePaused),
			resumed, run, exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is paused while its restart is pending, which it then need not wait for",
		shape: two(onFailure, scopeJob, limit(2)),
		steps: []step{
			run, exits(1, 1), run, exits(1, 1), paused, stands(batchv1beta1.JobPhasePaused),
			resumed, hasPod(1), run, exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 4, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a worker that waits for its restart alone is paused with the job",
		shape: two(onFailure, scopeReplica, limit(2)),
		steps: []step{
			run, exits(1, 1), run, exits(1, 1), paused, stands(batchv1beta1.JobPhasePaused),
			resumed, hasPod(1), run, exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is paused as a member fails, which counts",
		shape: two(onFailure, scopeJob, limit(1)),
		steps: []step{run, together(exits(1, 1), paused), stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 1)},
		want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 1, Restarts: 2, Pods: []string{"1 Failed"}},
	},
	{
		name:  "a job is paused as its leader succeeds, which ends it",
		shape: two(onFailure, scopeJob),
		steps: []step{run, together(exits(0, 0), exits(1, 0), paused)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a replica fails because the pause takes its peer, which does not count",
		shape: two(never, scopeJob, limit(0)),
		steps: []step{run, together(paused, soon(exits(1, 1))), stands(batchv1beta1.JobPhasePaused), resumed, run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a worker that has succeeded, and one that stays failed, run again after a pause",
		shape: Shape{Replicas: 3, RestartPolicy: onFailure, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeReplica, BackoffLimit: new(int32(0))}},
		steps: []step{
			run, exits(1, 0), exits(2, 1), paused, stands(batchv1beta1.JobPhasePaused),
			resumed, hasPod(1), hasPod(2), run, exits(1, 0), exits(2, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a node is lost while the job is paused on it",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, together(losesNode(1), paused), stands(batchv1beta1.JobPhasePending), passes(100 * time.Second),
			stands(batchv1beta1.JobPhasePaused), resumed, run, exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a pause at the edge of the deadline lets the job have its time anew",
		shape: two(onFailure, scopeJob, deadline(60)),
		steps: []step{
			run, passes(50 * time.Second), together(waits(10*time.Second), paused), stands(batchv1beta1.JobPhasePaused),
			passes(time.Hour), stands(batchv1beta1.JobPhasePaused),
			resumed, run, passes(50 * time.Second), stands(batchv1beta1.JobPhaseRunning), passes(10 * time.Second),
		},
		want: result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "the deadline of a job that was resumed, and never paused in full, counts anew",
		shape: two(onFailure, scopeJob, deadline(60)),
		steps: []step{
			run, passes(50 * time.Second), together(paused, soon(resumed)), run, passes(20 * time.Second), stands(batchv1beta1.JobPhaseRunning),
			passes(40 * time.Second),
		},
		want: result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "a paused job gets another replica, and has it when it is resumed",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, paused, edited(func(s *Shape) { s.Replicas = 3 }), stands(batchv1beta1.JobPhasePaused),
			resumed, run, exits(0, 0), exits(1, 0), exits(2, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a job is paused and loses all replicas before the controller sees it, and gets them back",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, together(paused, edited(func(s *Shape) { s.Replicas = 0 })), stands(batchv1beta1.JobPhasePaused),
			edited(func(s *Shape) { s.Replicas = 2 }), resumed, run, exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a worker that restarted alone is taken out of a paused job and put back, before its pod is gone",
		shape: two(onFailure, scopeReplica, limit(1)),
		steps: []step{
			run, exits(1, 1), run, passes(10 * time.Second),
			together(paused, soon(edited(func(s *Shape) { s.Replicas = 1 })), soon(edited(func(s *Shape) { s.Replicas = 2 })), soon(resumed)),
			run, exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the user pauses a job that has failed, which stays as it is",
		shape: two(never, scopeJob, cleanUp(batchv1beta1.CleanUpPolicyNone)),
		steps: []step{run, exits(1, 1), paused, passes(time.Minute), resumed},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"0 Running", "1 Failed"}},
	},
	{
		name:  "the user deletes a job while it is paused",
		shape: two(onFailure, scopeJob),
		steps: []step{run, paused, jobDeleted},
	},
	{
		name:  "an elastic job grows, and its replicas stay",
		shape: elastic(1, 2, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), scaled(4), run, keepsMarked,
			exits(0, 0), exits(1, 0), exits(2, 0), exits(3, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded", "3 Succeeded"},
		},
	},
	{
		name:  "an elastic job shrinks to its leader, which stays",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{run, marks(0), passes(10 * time.Second), scaled(1), keepsMarked, stands(batchv1beta1.JobPhaseRunning), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "an elastic job that shrinks gives up first what does not run",
		shape: elastic(1, 4, scopeReplica, limit(0)),
		steps: []step{
			runs(0, 3), marks(0, 3), stands(batchv1beta1.JobPhaseRunning), scaled(2), keepsMarked,
			passes(10 * time.Second), scaled(3), keepsMarked, runs(1), exits(0, 0), exits(1, 0), exits(3, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "3 Succeeded"}},
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
			exits(0, 0), exits(1, 0), exits(2, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "an elastic job grows again before the pod that it gave up is gone, by another index",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(scaled(2), soon(scaled(3))), run, passes(10 * time.Second),
			exits(0, 0), exits(1, 0), exits(3, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "3 Succeeded"}},
	},
	{
		name:  "an elastic job grows to its limit before the pod that it gave up is gone, which it waits for",
		shape: elastic(1, 4, scopeReplica, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(scaled(3), soon(scaled(4))), hasPod(3), run, passes(10 * time.Second),
			exits(0, 0), exits(1, 0), exits(2, 0), exits(3, 0),
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
			passes(10 * time.Second), exits(0, 0), exits(1, 0),
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
			run, marks(0), passes(10 * time.Second), together(scaled(3), exits(1, 137)), stands(batchv1beta1.JobPhaseRunning), run,
			keepsMarked, exits(0, 0), exits(1, 0), exits(2, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1,
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}, Failure: "1 Error 137 true",
		},
	},
	{
		name:  "a worker fails as its job shrinks, and is given up, which does not count",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{run, marks(0, 2), passes(10 * time.Second), together(scaled(2), exits(1, 1)), keepsMarked, exits(0, 0), exits(2, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a replica that an elastic job gave up fails on its way out, which does not count",
		shape: elastic(1, 2, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), passes(10 * time.Second), together(scaled(1), soon(exits(1, 1)), soon(scaled(2))), run, keepsMarked,
			passes(10 * time.Second), exits(0, 0), exits(2, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a worker that waits for its restart is the first that an elastic job gives up",
		shape: elastic(1, 3, scopeReplica),
		steps: []step{
			run, marks(0, 2), passes(10 * time.Second), exits(1, 1), run, exits(1, 1), scaled(2), keepsMarked,
			passes(time.Minute), exits(0, 0), exits(2, 0),
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
			exits(0, 0), exits(1, 0), exits(2, 0),
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
			exits(0, 0), exits(1, 0), passes(40 * time.Second),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "an elastic job restarts as one, if it is asked to, and shrinks meanwhile",
		shape: elastic(1, 3, scopeJob, limit(1)),
		steps: []step{run, passes(10 * time.Second), exits(2, 1), scaled(2), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 3, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "an elastic job that shrank unevenly is paused, scaled and resumed",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: []step{
			runs(0, 2), passes(10 * time.Second), scaled(2), paused, stands(batchv1beta1.JobPhasePaused), scaled(3),
			stands(batchv1beta1.JobPhasePaused), resumed, run, exits(0, 0), exits(1, 0), exits(2, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a member of a rendezvous gives up, which ends it for all",
		shape: elastic(1, 3, "", limit(1)),
		steps: []step{
			run, passes(10 * time.Second), together(exits(2, 1), soon(exits(1, 1))), stands(batchv1beta1.JobPhasePending),
			run, exits(0, 0), exits(1, 0), exits(2, 0),
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
			exits(0, 0), exits(1, 0), exits(2, 0),
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
			exits(0, 0), exits(1, 0), exits(2, 0),
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
			exits(0, 0), exits(1, 0), exits(2, 0),
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
		want: result{Phase: "Failed", Reason: "BackoffLimitExceeded", Pods: []string{"1 Failed", "2 Failed"}, Failure: "2 Error 1 true"},
	},
	{
		name:  "the user scales an elastic job that has succeeded, which stays as it is",
		shape: elastic(1, 2, scopeReplica),
		steps: []step{run, exits(0, 0), exits(1, 0), scaled(1), scaled(4), passes(time.Minute)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job has a TensorBoard, which outlives the run",
		shape: twoWithTensorBoard(),
		steps: []step{run, tensorBoardServes, exits(1, 1), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:1 (Create Serving)",
		},
	},
	{
		name:  "somebody deletes the TensorBoard of a job, and again once the job has finished",
		shape: twoWithTensorBoard(),
		steps: []step{
			run, together(tensorBoardDeleted, exits(1, 1)), run, passes(time.Minute), exits(0, 0), exits(1, 0), tensorBoardDeleted,
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "Create Deleted",
		},
	},
	{
		name:  "a job is deleted with its TensorBoard",
		shape: twoWithTensorBoard(),
		steps: []step{run, jobDeleted},
	},
	{
		name:  "the user wants another TensorBoard while the job is paused",
		shape: twoWithTensorBoard(),
		steps: []step{run, tensorBoardServes, paused, wantsTensorBoard("tb:2"), resumed, run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}, TensorBoard: "tb:2 (Update Serving)",
		},
	},
	{
		name:  "the user does without TensorBoard while the job is paused",
		shape: twoWithTensorBoard(),
		steps: []step{run, paused, wantsNoTensorBoard, resumed, run, exits(0, 0), exits(1, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the user changes their mind about TensorBoard before the controller sees it",
		shape: pausing(twoWithTensorBoard()),
		steps: []step{together(wantsNoTensorBoard, wantsTensorBoard("tb:2")), wantsNoTensorBoard, together(wantsTensorBoard("tb:3"), resumed), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}, TensorBoard: "tb:3 (Create Pending)",
		},
	},
	{
		name:   "a TensorBoard of somebody else's stands where the job's must go, which trains without",
		shape:  twoWithTensorBoard(),
		before: []step{foreignTensorBoard},
		steps:  []step{run, exits(1, 1), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: " (Create NameConflict)",
		},
	},
	{
		name:   "a TensorBoard of somebody else's goes out of the way",
		shape:  twoWithTensorBoard(),
		before: []step{foreignTensorBoard},
		steps:  []step{run, passes(2 * time.Minute), tensorBoardDeleted, passes(2 * time.Minute), exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}, TensorBoard: "tb:1 (Create Pending)",
		},
	},
	{
		name:  "a gang restarts as one, and its PodGroup goes as it succeeds",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{hasGroup(2), run, exits(1, 1), hasGroup(2), run, exits(0, 0), hasGroup(0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a gang fails, and its PodGroup goes",
		shape: inQueue(two(never, scopeJob)),
		steps: []step{run, exits(1, 1), hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"1 Failed"}},
	},
	{
		name:  "a gang is paused and resumed",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, paused, hasGroup(0), edited(func(s *Shape) { s.Replicas = 3 }), resumed, hasGroup(3), run, exits(0, 0), exits(1, 0), exits(2, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"}},
	},
	{
		name:  "a gang is paused and resumed before the controller sees it",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(paused, resumed), hasGroup(2), exits(1, 1), together(paused, resumed), run, exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:   "a job waits for its queue to open, and is paused meanwhile",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{closes},
		steps: []step{
			stands(batchv1beta1.JobPhasePending), hasGroup(2), paused, hasGroup(0), resumed, hasGroup(2), passes(time.Minute), opens, run,
			exits(0, 0), exits(1, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "a job waits for its queue until its deadline",
		shape:  inQueue(two(onFailure, scopeJob, deadline(60))),
		before: []step{closes},
		steps:  []step{passes(2 * time.Minute), opens},
		want:   result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "a replacement in a gang does not wait for peers that are done",
		shape: inQueue(Shape{Replicas: 4, RestartPolicy: onFailure, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeReplica, BackoffLimit: new(int32(1))}}),
		steps: []step{
			run, exits(3, 0), hasGroup(4), exits(1, 1), hasGroup(3), run, exits(2, 1), hasGroup(3), deleted(1), hasGroup(2),
			passes(15 * time.Second), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Deleted 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Failed", "3 Succeeded"},
		},
	},
	{
		name:  "somebody deletes the PodGroup of a gang, which has another",
		shape: inQueue(two(onFailure, scopeReplica)),
		steps: []step{run, groupDeleted, hasGroup(2), together(groupDeleted, exits(1, 1)), run, hasGroup(2), exits(0, 0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job is deleted with its PodGroup",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, jobDeleted},
	},
	{
		name:   "a PodGroup of somebody else's stands where the job's must go, until it goes out of the way",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{foreignGroup},
		steps:  []step{passes(2 * time.Minute), stands(batchv1beta1.JobPhasePending), groupDeleted, passes(2 * time.Minute), run, exits(0, 0), exits(1, 0)},
		want:   result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "an elastic gang scales without a change of its PodGroup, and trains with what fits",
		shape: inQueue(elastic(2, 3, scopeReplica)),
		steps: []step{
			hasGroup(2), runs(0, 1), stands(batchv1beta1.JobPhaseRunning), scaled(4), hasGroup(2), run, scaled(2), hasGroup(2), exits(1, 1), run,
			exits(0, 0), exits(1, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
}
