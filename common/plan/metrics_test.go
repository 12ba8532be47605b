package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// Each restart is one, of a replica or of the whole job, by what the status calls it.
func TestRestartsAreCountedByCause(t *testing.T) {
	t.Parallel()
	running2 := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []plan.Restart
	}{
		"nothing happens": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: running2,
		},
		"a collective restarts as one": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: []plan.Restart{{Cause: "Error", Counted: true}},
		},
		"replicas restart each": {
			job:  job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: []plan.Restart{{Cause: "Error", Counted: true}, {Cause: "Error", Counted: true}},
		},
		"a disruption": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, disrupted, deleting)},
			want: []plan.Restart{{Cause: "Preempted", Counted: false}},
		},
		"a success that is to run again": {
			job:  job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))},
			want: []plan.Restart{{Cause: "Completed", Counted: false}},
		},
		"what the kubelet alone has a name for": {
			job:  job(role("worker", 2)),
			pods: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", rejected)},
			want: []plan.Restart{{Cause: "OutOfcpu", Counted: false}},
		},
		"a failure that ends the job is no restart": {
			job:  job(role("worker", 2)).BackoffLimit(0).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "restarts", tc.want, tc.job.Sees(tc.pods...).Restarts)
		})
	}
}

func TestStartAndRecoveryAreTimed(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2))
	j.Created = now.Add(-time.Hour)
	j.Saw(3*time.Minute, pod("job-worker-0"), pod("job-worker-1"))

	d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", running))
	diff(t, "time to start", new(time.Hour), d.StartDuration)
	diff(t, "time to recover", (*time.Duration)(nil), d.RecoveryDuration)

	j.Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
	j.Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1)))
	diff(t, "time to recover while one still starts", (*time.Duration)(nil), d.RecoveryDuration)
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover", new(time.Minute), d.RecoveryDuration)
	diff(t, "time to start, which happened before", (*time.Duration)(nil), d.StartDuration)

	j.Status = d.Status
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover, once more", (*time.Duration)(nil), d.RecoveryDuration)
}

// The controller may see a failure late.
func TestRecoveryIsTimedFromTheFailure(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := ran().Saw(time.Minute, worker0, pod("job-worker-1", exitedAgo(1, 90*time.Second)))
	d := j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover", new(90*time.Second), d.RecoveryDuration)

	j.Status.Failures = nil
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover if no failure is recorded", new(time.Minute), d.RecoveryDuration)
}
