package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
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
		want plan.Action
	}{
		"a new job runs":                 {job: job(role("worker", 2)), want: plan.Run},
		"a job without replicas is held": {job: job(role("worker", 0)), want: plan.Hold},
		"a job without replicas that is created paused has no pods": {
			job: job(role("worker", 0)).Paused(true), want: plan.Pause,
		},
		"a job that lost its replicas is held":             {job: withoutReplicas(ran()), pods: runs, want: plan.Hold},
		"a job that lost its replicas keeps its deadline":  {job: withoutReplicas(ran()).Deadline(1), want: plan.DecideEnd},
		"a job that lost its replicas is stopped to pause": {job: withoutReplicas(ran()).Paused(true), want: plan.Stop},
		"a job that is deleted is left alone":              {job: deleted(ran()), pods: runs, want: plan.Leave},
		"a running job goes on":                            {job: ran(), pods: runs, want: plan.Run},
		"a success of the leader ends the job":             {job: ran(), pods: succeeded, want: plan.DecideEnd},
		"a failure without a window is answered":           {job: ran(), pods: oneFailed, want: plan.Run},
		"a failure beyond the limit ends the job": {
			job: ran().BackoffLimit(0), pods: oneFailed, want: plan.DecideEnd,
		},
		"a failure that restarts all waits for the reports of the peers": {
			job: ran().Window(2 * time.Second), pods: oneFailed, want: plan.AwaitReports,
		},
		"a job that is created paused has no pods": {job: job(role("worker", 2)).Paused(true), want: plan.Pause},
		"a job whose first status is not written yet is stopped to be paused": {
			job: job(role("worker", 2)).Paused(true), pods: runs, want: plan.Stop,
		},
		"a job that runs is stopped to be paused": {job: ran().Paused(true), pods: runs, want: plan.Stop},
		"a job that was stopped loses its pods":   {job: ran().Paused(true).Saw(0, runs...), pods: runs, want: plan.Pause},
		"a success goes before a pause":           {job: ran().Paused(true), pods: succeeded, want: plan.DecideEnd},
		"a job that passed its deadline ends":     {job: ran().Deadline(1), pods: runs, want: plan.DecideEnd},
		"a pause goes before the deadline":        {job: ran().Deadline(1).Paused(true), pods: runs, want: plan.Stop},
		"a job whose end is decided waits for its pods": {
			job: ran().BackoffLimit(0).Saw(0, oneFailed...), pods: oneFailed, want: plan.End,
		},
		"the end that is decided goes before a pause": {
			job: ran().BackoffLimit(0).Saw(0, oneFailed...).Paused(true), pods: oneFailed, want: plan.End,
		},
		"a finished job is cleaned up":              {job: ran().Saw(0, succeeded...), want: plan.CleanUp},
		"a finished job is deleted after its time":  {job: ran().TTL(0).Saw(0, succeeded...), want: plan.Expire},
		"a finished job stays until its time comes": {job: ran().TTL(60).Saw(0, succeeded...), want: plan.CleanUp},
		"a finished job whose time is over waits for a pod that is held": {
			job:  ran().TTL(0).Saw(0, succeeded...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0), held), succeeded[1]}, want: plan.CleanUp,
		},
		"a job that has not finished is not deleted, whatever its completionTime is": {
			job: withCompletionTime(ran()).TTL(0), pods: runs, want: plan.Run,
		},
		"a finished job waits for the pods of lost nodes": {
			job: ran().TTL(0).LoseNodesAfter(time.Minute).CleanUp(batchv1beta1.CleanUpPolicyNone).
				Saw(0, succeeded[0], lost),
			pods: []*corev1.Pod{lost}, want: plan.CleanUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := plan.Choose(tc.job.Job, seeing(tc.pods...), now); got != tc.want {
				t.Errorf("the action is %d, want %d", got, tc.want)
			}
		})
	}
}

// A job whose replicas were all taken away while it ran is held as it is, and still has a deadline.
func TestChooseHoldsAJobThatLostItsReplicas(t *testing.T) {
	t.Parallel()
	j := withoutReplicas(ran()).Deadline(3600)
	diff(t, "action", plan.Hold, plan.Choose(j.Job, seeing(), now))
	d := j.Sees()
	diff(t, "reason", batchv1beta1.ReasonNoReplicas, d.Status.Reason)
	if d.WakeAt.IsZero() {
		t.Error("nothing wakes the job at its deadline")
	}
}

// A job that is held shows which spec its status is about, and by which selector its pods are found.
func TestStatusOfAJobThatIsHeldIsIdentified(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 0)).Sees()
	diff(t, "observedGeneration", int64(1), d.Status.ObservedGeneration)
	diff(t, "selector", "batch.tensorstack.dev/job-kind=TestJob,batch.tensorstack.dev/job-name=job", d.Status.Selector)
}

// withoutReplicas takes all replicas of a job away.
func withoutReplicas(j *jobBuilder) *jobBuilder {
	j.Spec.Roles[0].Replicas = 0
	return j
}

// withCompletionTime sets the completionTime of a job that has not finished. The controller never does.
func withCompletionTime(j *jobBuilder) *jobBuilder {
	j.Status.CompletionTime = new(ago(time.Second))
	return j
}
