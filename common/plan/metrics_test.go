package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
)

// A restart of a replica and a restart of the whole job count once each. The cause is the reason of the failure, as
// in the status.
func TestRestartsAreCountedByCause(t *testing.T) {
	t.Parallel()
	running2 := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []decide.Restart
	}{
		"no restart is counted while nothing happens": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: running2,
		},
		"the restart of a collective counts once": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: []decide.Restart{{Cause: "Error", Counted: true}},
		},
		"restarts of individual replicas count once each": {
			job:  job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: []decide.Restart{{Cause: "Error", Counted: true}, {Cause: "Error", Counted: true}},
		},
		"a restart after a disruption does not count towards backoffLimit": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, disrupted, deleting)},
			want: []decide.Restart{{Cause: "Preempted", Counted: false}},
		},
		"the restart of a replica that succeeded has the cause Completed": {
			job:  job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))},
			want: []decide.Restart{{Cause: "Completed", Counted: false}},
		},
		"the cause of a rejection by the kubelet is the reason of the kubelet": {
			job:  job(role("worker", 2)),
			pods: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", rejected)},
			want: []decide.Restart{{Cause: "OutOfcpu", Counted: false}},
		},
		"a failure that ends the job is not a restart": {
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
	diff(t, "time to recover", (*status.Recovery)(nil), d.Recovery)

	j.Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
	j.Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1)))
	diff(t, "time to recover while a replica is still starting", (*status.Recovery)(nil), d.Recovery)
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover", &status.Recovery{Cause: "Error", Duration: time.Minute}, d.Recovery)
	diff(t, "time to start, which was reported before", (*time.Duration)(nil), d.StartDuration)

	j.Status = d.Status
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover, which was reported before", (*status.Recovery)(nil), d.Recovery)
}

// The time to recover begins with the failure, even if the controller sees the failure late.
func TestRecoveryIsTimedFromTheFailure(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := ran().Saw(time.Minute, worker0, pod("job-worker-1", exitedAgo(1, 90*time.Second)))
	d := j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover", &status.Recovery{Cause: "Error", Duration: 90 * time.Second}, d.Recovery)

	// Another replica fails before the job has recovered.
	two := ran().Scope(scopeReplica).Saw(time.Minute, worker0, pod("job-worker-1", exitedAgo(1, time.Minute)))
	two.Saw(30*time.Second, pod("job-worker-0", exitedAgo(1, 30*time.Second)), pod("job-worker-1", againAlone(1)))
	d = two.Sees(pod("job-worker-0", againAlone(1), running), pod("job-worker-1", againAlone(1), running))
	diff(t, "time to recover from two failures", &status.Recovery{Cause: "Error", Duration: time.Minute}, d.Recovery)

	j.Status.Failures = nil
	d = j.Sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover if no failure is recorded",
		&status.Recovery{Cause: "Error", Duration: time.Minute}, d.Recovery)
}
