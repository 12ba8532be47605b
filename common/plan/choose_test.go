package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
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
		want action
	}{
		"a new job runs":                         {job: job(role("worker", 2)), want: run},
		"a job without replicas is held":         {job: job(role("worker", 0)), want: hold},
		"a job that is deleted is left alone":    {job: deleted(ran()), pods: runs, want: leave},
		"a running job goes on":                  {job: ran(), pods: runs, want: run},
		"a success of the leader ends the job":   {job: ran(), pods: succeeded, want: finish},
		"a failure without a window is answered": {job: ran(), pods: oneFailed, want: run},
		"a failure beyond the limit ends the job": {
			job: ran().backoffLimit(0), pods: oneFailed, want: finish,
		},
		"a failure that restarts all waits for the reports of the peers": {
			job: ran().window(2 * time.Second), pods: oneFailed, want: awaitReports,
		},
		"a job that is created paused has no pods":  {job: job(role("worker", 2)).paused(true), want: pause},
		"a job that runs is stopped to be paused":   {job: ran().paused(true), pods: runs, want: stop},
		"a job that was stopped loses its pods":     {job: ran().paused(true).saw(0, runs...), pods: runs, want: pause},
		"a success goes before a pause":             {job: ran().paused(true), pods: succeeded, want: finish},
		"a job that passed its deadline ends":       {job: ran().deadline(1), pods: runs, want: finish},
		"a pause goes before the deadline":          {job: ran().deadline(1).paused(true), pods: runs, want: stop},
		"a finished job is cleaned up":              {job: ran().saw(0, succeeded...), want: cleanUp},
		"a finished job is deleted after its time":  {job: ran().ttl(0).saw(0, succeeded...), want: expire},
		"a finished job stays until its time comes": {job: ran().ttl(60).saw(0, succeeded...), want: cleanUp},
		"a finished job waits for the pods of lost nodes": {
			job: ran().ttl(0).nodeLostDelay(time.Minute).saw(0, succeeded[0], lost), pods: []*corev1.Pod{lost}, want: cleanUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := interpret(tc.job.Job, seeing(tc.pods...), now)
			if got := v.choose().action; got != tc.want {
				t.Errorf("the action is %d, want %d", got, tc.want)
			}
		})
	}
}

// A job whose replicas were all taken away while it ran is held as it is, and still has a deadline.
func TestChooseHoldsAJobThatLostItsReplicas(t *testing.T) {
	t.Parallel()
	j := ran().deadline(3600)
	j.Spec.Roles[0].Replicas = 0
	v := interpret(j.Job, seeing(), now)
	diff(t, "action", hold, v.choose().action)
	d := j.sees()
	diff(t, "reason", batchv1beta1.ReasonNoReplicas, d.Status.Reason)
	if d.WakeAt.IsZero() {
		t.Error("nothing wakes the job at its deadline")
	}
}
