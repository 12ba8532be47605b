package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

func TestEndsRun(t *testing.T) {
	t.Parallel()
	bothRun := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	workers := func() *jobBuilder {
		return job(role("worker", 2)).Saw(time.Minute, bothRun...)
	}
	ended := []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))}
	peerRuns := []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", running)}
	peerIsGone := []*corev1.Pod{pod("job-worker-0", exited(0))}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want bool
	}{
		"the run does not end while all replicas run":                   {workers(), bothRun, false},
		"the run does not end while a peer of a successful leader runs": {workers(), peerRuns, false},
		"the run ends when all replicas have ended":                     {workers(), ended, true},
		"the run ends when the clean-up has deleted the last peer": {
			workers().Saw(time.Minute, peerRuns...), peerIsGone, true,
		},
		"the run does not end if the job finishes and keeps a running peer": {
			workers().CleanUp(batchv1beta1.CleanUpPolicyNone), peerRuns, false,
		},
		"the run ends when a peer that the job kept has ended": {
			workers().CleanUp(batchv1beta1.CleanUpPolicyNone).Saw(time.Minute, peerRuns...), ended, true,
		},
		"the run does not end twice": {workers().Saw(time.Minute, ended...), ended, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "whether the run ends", tc.want, plan.EndsRun(tc.job.Job, d))
			if tc.want {
				diff(t, "phase", batchv1beta1.JobPhaseSucceeded, d.Status.Phase)
			}
		})
	}
}

func TestRunDoesNotEndBeforeTheJobHasFinished(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running))
	d := j.Sees(pod("job-worker-0", running))
	d.Status.Tasks[0].Replicas[0].Phase = batchv1beta1.ReplicaPhaseSucceeded
	diff(t, "whether the run ends", false, plan.EndsRun(j.Job, d))
}
