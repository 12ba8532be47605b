package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/policy"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	runs := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	oneFailed := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))}
	succeeded := []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))}
	lost := pod("job-worker-1", running, onLostNode, deleting)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want decide.Action
	}{
		"a new job runs":                 {job: job(role("worker", 2)), want: decide.Run},
		"a job without replicas is held": {job: job(role("worker", 0)), want: decide.Hold},
		"a job that is created paused and without replicas is paused": {
			job: job(role("worker", 0)).Paused(true), want: decide.Pause,
		},
		"a job that is scaled to 0 replicas is held": {
			job: withoutReplicas(ran()), pods: runs, want: decide.Hold,
		},
		"a job that is scaled to 0 replicas keeps its deadline": {
			job: withoutReplicas(ran()).Deadline(1), want: decide.DecideEnd,
		},
		"a job that is scaled to 0 replicas is stopped before a pause": {
			job: withoutReplicas(ran()).Paused(true), want: decide.Stop,
		},
		"a deleted job is left alone": {
			job: deleted(ran()), pods: runs, want: decide.Leave,
		},
		"a running job continues": {job: ran(), pods: runs, want: decide.Run},
		"the success of the leader ends the job": {
			job: ran(), pods: succeeded, want: decide.DecideEnd,
		},
		"a failure is handled immediately if there is no failure window": {job: ran(), pods: oneFailed, want: decide.Run},
		"a failure beyond backoffLimit ends the job": {
			job: ran().BackoffLimit(0), pods: oneFailed, want: decide.DecideEnd,
		},
		"a failure that restarts all replicas waits for failures of the peers": {
			job: ran().Window(2 * time.Second), pods: oneFailed, want: decide.AwaitRootCause,
		},
		"a job that is created paused is paused": {job: job(role("worker", 2)).Paused(true), want: decide.Pause},
		"a job whose first status is not written yet is stopped before a pause": {
			job: job(role("worker", 2)).Paused(true), pods: runs, want: decide.Stop,
		},
		"a running job is stopped before a pause": {job: ran().Paused(true), pods: runs, want: decide.Stop},
		"a stopped job is paused": {
			job: ran().Paused(true).Saw(0, runs...), pods: runs, want: decide.Pause,
		},
		"a success takes precedence over a pause":    {job: ran().Paused(true), pods: succeeded, want: decide.DecideEnd},
		"a job that passes its deadline ends":        {job: ran().Deadline(1), pods: runs, want: decide.DecideEnd},
		"a pause takes precedence over the deadline": {job: ran().Deadline(1).Paused(true), pods: runs, want: decide.Stop},
		"a job whose end is decided waits for its pods": {
			job: ran().BackoffLimit(0).Saw(0, oneFailed...), pods: oneFailed, want: decide.End,
		},
		"a decided end takes precedence over a pause": {
			job: ran().BackoffLimit(0).Saw(0, oneFailed...).Paused(true), pods: oneFailed, want: decide.End,
		},
		"a finished job is cleaned up":                     {job: ran().Saw(0, succeeded...), want: decide.CleanUp},
		"a finished job is deleted after its time to live": {job: ran().TTL(0).Saw(0, succeeded...), want: decide.Expire},
		"a finished job stays until its time to live is over": {
			job: ran().TTL(60).Saw(0, succeeded...), want: decide.CleanUp,
		},
		"a job that names the job controller runs": {
			job: managedBy(batchv1beta1.ManagedByJobController, ran()), pods: runs, want: decide.Run,
		},
		"a job of MultiKueue is dispatched": {
			job: managedBy(batchv1beta1.ManagedByMultiKueue, job(role("worker", 2))), want: decide.Dispatch,
		},
		"a finished job of MultiKueue is deleted after its time to live": {
			job: managedBy(batchv1beta1.ManagedByMultiKueue, ran().TTL(0).Saw(0, succeeded...)), want: decide.Expire,
		},
		"a finished job of MultiKueue stays until its time to live is over": {
			job: managedBy(batchv1beta1.ManagedByMultiKueue, ran().TTL(60).Saw(0, succeeded...)), want: decide.Dispatch,
		},
		"a finished copy of a job of another cluster stays": {
			job: copied(ran().TTL(0).Saw(0, succeeded...)), want: decide.CleanUp,
		},
		"an expired job waits for a pod that is held": {
			job:  ran().TTL(0).Saw(0, succeeded...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0), held), succeeded[1]}, want: decide.CleanUp,
		},
		"a job that has not finished is not deleted even if it has a completionTime": {
			job: withCompletionTime(ran()).TTL(0), pods: runs, want: decide.Run,
		},
		"an expired job waits for pods on lost nodes": {
			job: ran().TTL(0).LoseNodesAfter(time.Minute).CleanUp(batchv1beta1.CleanUpPolicyNone).
				Saw(0, succeeded[0], lost),
			pods: []*corev1.Pod{lost}, want: decide.CleanUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := action(tc.job, tc.pods...); got != tc.want {
				t.Errorf("the action is %d, want %d", got, tc.want)
			}
		})
	}
}

// The action for a started job that is scaled to 0 replicas is Hold. The deadline of the job still applies.
func TestHeldJobKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	j := withoutReplicas(ran()).Deadline(3600)
	diff(t, "action", decide.Hold, action(j))
	d := j.Sees()
	diff(t, "reason", batchv1beta1.ReasonNoReplicas, d.Status.Reason)
	if d.RequeueAt.IsZero() {
		t.Error("the job is not requeued for its deadline")
	}
	notStarted := job(role("worker", 0)).Deadline(3600).Sees()
	diff(t, "requeue delay of a job that has not started", time.Duration(0), summarize(notStarted).RequeueIn)
}

// An expired job is only deleted. Its pods and a change of its spec no longer matter.
func TestAnExpiredJobIsOnlyDeleted(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 0)).Elastic(1, 2).TTL(0).LoseNodesAfter(time.Minute).
		Saw(time.Minute, runningPods()...).Saw(time.Minute, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)))
	j.Generation++
	unrecorded := policy.OnRespondingNode(pod("job-worker-1", running, of("9"), onLostNode, deleting))
	want := decided(j.Status)
	want.DeleteJob = true
	diff(t, "decision", want, actedOn(j.Sees(unrecorded)))
}

// If the action is Hold, the status has the observed generation and the selector of the job's pods.
func TestHeldJobHasItsGenerationAndSelector(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 0)).Sees()
	diff(t, "observedGeneration", int64(1), d.Status.ObservedGeneration)
	diff(t, "selector", "batch.tensorstack.dev/job-kind=TestJob,batch.tensorstack.dev/job-name=job", d.Status.Selector)
}

// action returns the action for a job with the given pods.
func action(j *jobBuilder, pods ...*corev1.Pod) decide.Action {
	facts, _ := decide.Decide(j.Job, seeing(pods...), now)
	return facts.Action
}

// withoutReplicas scales the first role of a job to 0 replicas.
func withoutReplicas(j *jobBuilder) *jobBuilder {
	j.Spec.Roles[0].Replicas = 0
	return j
}

// withCompletionTime sets the completionTime of a job that has not finished, which the controller never does.
func withCompletionTime(j *jobBuilder) *jobBuilder {
	j.Status.CompletionTime = new(ago(time.Second))
	return j
}

// managedBy sets the controller that manages the job.
func managedBy(controller batchv1beta1.ManagedBy, j *jobBuilder) *jobBuilder {
	j.Spec.ManagedBy = controller
	return j
}

// copied makes the job a copy of a job of another cluster.
func copied(j *jobBuilder) *jobBuilder {
	j.IsCopy = true
	return j
}

func TestAJobThatAnotherControllerManagesIsLeftToIt(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]*jobBuilder{
		"a new job":      job(role("worker", 2)),
		"a job that ran": ran(),
		"a finished job": ran().TTL(0).Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			managedBy("example.com/controller", j.LoseNodesAfter(time.Minute))
			d := plan.Decide(j.Job, seeing(pod("job-worker-1", running, held, onLostNode, deleting)), now.Add(time.Hour))
			diff(t, "decision", decided(j.Status), d)
		})
	}
}
