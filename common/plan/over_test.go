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
		"a job that runs does not":                          {workers(), bothRun, false},
		"a job whose leader succeeds while a peer runs not": {workers(), peerRuns, false},
		"a job whose replicas have ended does":              {workers(), ended, true},
		"a job whose last peer the clean-up deleted does":   {workers().Saw(time.Minute, peerRuns...), peerIsGone, true},
		"a job that finishes and keeps a peer that runs does not": {
			workers().CleanUp(batchv1beta1.CleanUpPolicyNone), peerRuns, false,
		},
		"a job that kept a peer does once it has ended": {
			workers().CleanUp(batchv1beta1.CleanUpPolicyNone).Saw(time.Minute, peerRuns...), ended, true,
		},
		"a job whose run was over before does not again": {workers().Saw(time.Minute, ended...), ended, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "the run ends", tc.want, plan.EndsRun(tc.job.Job, d))
			if tc.want {
				diff(t, "phase", batchv1beta1.JobPhaseSucceeded, d.Status.Phase)
			}
		})
	}
}

func TestRunIsNotOverBeforeTheJobHasFinished(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running))
	d := j.Sees(pod("job-worker-0", running))
	d.Status.Tasks[0].Replicas[0].Phase = batchv1beta1.ReplicaPhaseSucceeded
	diff(t, "the run ends", false, plan.EndsRun(j.Job, d))
}
