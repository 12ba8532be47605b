package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// The clock of a node can be ahead. A failure whose time is in the future does not delay a restart.
func TestRestartIsNotDelayedByTheClockOfANode(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, -time.Hour)))
	diff(t, "restartTime", (*metav1.Time)(nil), d.Status.Tasks[0].Replicas[1].RestartTime)
	diff(t, "requeue delay", time.Duration(0), summarize(d).RequeueIn)
}

// The first restart is immediate, unless a device is unhealthy. The second comes 10 s after the failure. From then on
// the delay doubles, up to 6 min.
func TestRestartDelay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope    batchv1beta1.RestartScope
		attempts int32
		// failedAgo is how long ago the last failure was.
		failedAgo time.Duration
		options   []podOption
		wantWait  time.Duration
	}{
		"the first restart of the job is immediate": {scope: scopeJob, attempts: 1},
		"the second restart of the job waits 10 s": {
			scope: scopeJob, attempts: 2, wantWait: 10 * time.Second,
		},
		"the third restart of the job waits twice as long": {
			scope: scopeJob, attempts: 3, wantWait: 20 * time.Second,
		},
		"the tenth restart of the job waits the maximum delay": {
			scope: scopeJob, attempts: 10, wantWait: 6 * time.Minute,
		},
		"the delay of a restart begins with the failure": {
			scope: scopeJob, attempts: 3, failedAgo: 15 * time.Second, wantWait: 5 * time.Second,
		},
		"a restart is immediate if its delay is over": {
			scope: scopeJob, attempts: 3, failedAgo: time.Minute,
		},
		"a restart after an ignored failure waits too": {
			scope: scopeJob, attempts: 2, options: []podOption{disrupted}, wantWait: 10 * time.Second,
		},
		"the third restart of one replica waits twice as long": {
			scope: scopeReplica, attempts: 3, wantWait: 20 * time.Second,
		},
		"the first restart of one replica is immediate": {scope: scopeReplica, attempts: 1},
		"a restart of one replica after an ignored failure waits too": {
			scope: scopeReplica, attempts: 2, options: []podOption{disrupted}, wantWait: 10 * time.Second,
		},
		"the first restart of the job because of an unhealthy device waits 15 s": {
			scope: scopeJob, attempts: 1, options: []podOption{withBadDevice("gpu-1")}, wantWait: 15 * time.Second,
		},
		"the first restart of one replica because of an unhealthy device waits 15 s": {
			scope: scopeReplica, attempts: 1, options: []podOption{withBadDevice("gpu-1")}, wantWait: 15 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2)).Scope(tc.scope).BackoffLimit(100)
			peer := func(int32) []*corev1.Pod { return []*corev1.Pod{pod("job-worker-0", running)} }
			nth, last := againAlone, attemptLabel(0, tc.attempts)
			if tc.scope == scopeJob {
				peer = func(n int32) []*corev1.Pod { return []*corev1.Pod{pod("job-worker-0", running, again(n))} }
				nth, last = again, attemptLabel(tc.attempts, 0)
			}
			for n := range tc.attempts - 1 {
				j.Saw(time.Hour, append(peer(n), pod("job-worker-1", running, nth(n)))...)
				j.Saw(time.Hour, append(peer(n), pod("job-worker-1", exitedAgo(1, time.Hour), nth(n)))...)
			}
			options := append([]podOption{exitedAgo(1, tc.failedAgo), nth(tc.attempts - 1)}, tc.options...)
			j.Saw(0, append(peer(tc.attempts-1), pod("job-worker-1", options...))...)

			gone := []*corev1.Pod{}
			want := []string{created("job-worker-0", last), created("job-worker-1", last)}
			if tc.scope == scopeReplica {
				gone = peer(0)
				want = want[1:]
			}
			d := j.Sees(gone...)
			if tc.wantWait == 0 {
				diff(t, "creations", want, summarize(d).Creates)
				return
			}
			diff(t, "creations before the restart is due", []string(nil), summarize(d).Creates)
			diff(t, "requeue delay", tc.wantWait, summarize(d).RequeueIn)
			diff(t, "restartTime", new(metav1.NewTime(now.Add(tc.wantWait))), d.Status.Tasks[0].Replicas[1].RestartTime)
			later := plan.Decide(j.Job, seeing(gone...), now.Add(tc.wantWait))
			diff(t, "creations when the restart is due", want, summarize(later).Creates)
		})
	}
}

// If a pod is gone, the time when its replica ended is unknown. The restart delay then begins at the time of the
// decision.
func TestRestartOfAReplicaThatIsGoneIsDelayed(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Hour, pod("job-worker-0", running)).
		Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour))).
		Saw(time.Minute, pod("job-worker-0", running, again(1)))
	got := summarize(j.Sees())
	diff(t, "creations", []string(nil), got.Creates)
	diff(t, "requeue delay", 10*time.Second, got.RequeueIn)
}
