package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestStallRestartsTheJob(t *testing.T) {
	t.Parallel()
	j := reports(600, 300, restart)
	seen := leaderReads(step(420, 10*time.Minute))
	d := j.DecideAt(now, seen)
	diff(t, "summary", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 1, Attempt: 1,
		Failures: []string{"job-worker-0: no exit code, counted"}, Deletes: []string{"job-worker-0", "job-worker-1"},
	}, summarize(d))
	diff(t, "failures", []batchv1beta1.ReplicaFailure{{
		Replica: "job-worker-0", Reason: batchv1beta1.ReasonNoProgress, Time: ago(0), Counted: true, Message: stalledAt42,
	}}, d.Status.Failures)
	diff(t, "restarts", []decide.Restart{{Cause: batchv1beta1.ReasonNoProgress, Counted: true}}, d.Restarts)
	diff(t, "stall", stall{
		Reaction: restart, Stalled: isStalled(stalledAt42), Backoff: 1,
		Events: []string{"Warning Restarting: restarting all 2 replicas: replica job-worker-0 stalled: " + stalledAt42},
	}, stallOf(d))
	diff(t, "ReplicaFailure", condition{
		"True", batchv1beta1.ReasonNoProgress, "replica job-worker-0 stalled and is being replaced",
	}, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
	if !d.NeedsLiveRead {
		t.Error("the restart needs no live read, want one")
	}

	j.Status = d.Status
	diff(t, "stall when the same pods are seen again",
		stall{Stalled: isStalled(stalledAt42), Backoff: 1}, stallOf(j.DecideAt(now, seen)))
	next := []*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1))}
	d = j.DecideAt(now, reading(readings{"job-worker-0": noReport(0)}, next...))
	diff(t, "Stalled of the new attempt before its first report", isStalled(stalledAt42), stallOf(d).Stalled)
	j.Status = d.Status

	first := step(0, 0)
	first.Time = first.Time.Add(time.Minute)
	d = j.DecideAt(first.Time, reading(readings{"job-worker-0": first}, next...))
	diff(t, "Stalled of the new attempt after its first report", isNot(batchv1beta1.ReasonProgressing, isOnTime),
		stallOf(d).Stalled)
	j.Status = d.Status

	second := step(10, 0)
	second.Time, second.Silence = now.Add(20*time.Minute), 11*time.Minute
	d = j.DecideAt(second.Time, reading(readings{"job-worker-0": second}, next...))
	diff(t, "backoffCount after a stall of the new attempt", int32(2), d.Status.BackoffCount)
	diff(t, "attempt after a stall of the new attempt", int32(2), d.Status.Attempt)
}

// After a stall has restarted the job, the condition Stalled stays True until the new attempt reports progress.
func TestAStallThatRestartedTheJobIsShownUntilTheNextReport(t *testing.T) {
	t.Parallel()
	next := []*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1))}
	for name, startup := range map[string]int64{
		"a job without a deadline for its start shows the stall": 0,
		"a job with a deadline for its start shows the stall":    300,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := reports(600, startup, restart).SawIn(leaderReads(readBefore(step(420, 10*time.Minute), time.Minute)))
			seen := reading(readings{"job-worker-0": noReport(0)}, next...)
			j.Status = j.DecideAt(now, seen).Status
			diff(t, "whether the job runs again", true, view.IsRunning(j.Status))
			d := j.DecideAt(now, seen)
			diff(t, "Stalled", batchv1beta1.ReasonNoProgress, conditionOf(d, batchv1beta1.ConditionStalled).Reason)
			diff(t, "events", []string(nil), stallOf(d).Events)
		})
	}
}

func TestStallWithThePolicyRestart(t *testing.T) {
	t.Parallel()
	silent := step(420, 10*time.Minute)
	worker0, worker1 := runningPods()[0], runningPods()[1]
	failed := pod("job-worker-1", exited(1))
	deleted := []string{"job-worker-0", "job-worker-1"}
	type result struct {
		Backoff, Attempt int32
		Failures         []string
		Deletes          []string
		// Reaction is how the controller reacts to a new stall. The field Stalled is the reason of the condition Stalled.
		Reaction batchv1beta1.ProgressPolicy
		Stalled  string
	}
	restarted := result{
		Backoff: 1, Attempt: 1, Failures: []string{"job-worker-0: no exit code, counted"}, Deletes: deleted,
		Reaction: restart, Stalled: batchv1beta1.ReasonNoProgress,
	}
	startupStall := started(restart, 5*time.Minute)
	stalledBefore := reports(600, 0, restart).Saw(20*time.Minute, worker0, pod("job-worker-1", exited(0)))
	stalledBefore.Status.Failures = []batchv1beta1.ReplicaFailure{{
		Replica: "job-worker-1", Reason: batchv1beta1.ReasonNoProgress, Time: ago(time.Hour), Counted: true,
	}}
	unreporting := reports(600, 300, restart)
	unreporting.Spec.ReportsProgress = false
	elastic := job(role("worker", 2)).Elastic(1, 2).Reporting(600, 300, restart).Saw(time.Hour, runningPods()...)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
		want result
	}{
		"a job that does not report does not restart": {job: unreporting, seen: leaderReads(silent)},
		"a stall restarts all replicas although one has failed and stays failed": {
			job:  neverRestarted().Scope(scopeReplica).Saw(20*time.Minute, worker0, pod("job-worker-1", exited(1))),
			seen: reading(readings{"job-worker-0": silent}, worker0, pod("job-worker-1", exited(1))),
			want: result{
				Backoff: 1, Attempt: 1, Deletes: deleted, Reaction: restart, Stalled: batchv1beta1.ReasonNoProgress,
				Failures: []string{"job-worker-0: no exit code, counted", "job-worker-1: exit code 1, counted"},
			},
		},
		"a stall is recorded although the replica that reported last stalled before and has ended": {
			job: stalledBefore, seen: reading(readings{"job-worker-1": silent}, worker0, pod("job-worker-1", exited(0))),
			want: result{
				Backoff: 1, Attempt: 1, Deletes: deleted, Reaction: restart, Stalled: batchv1beta1.ReasonNoProgress,
				Failures: []string{"job-worker-1: no exit code, counted", "job-worker-1: no exit code, counted"},
			},
		},
		"a stall is no failure of the replica that reported last and stays failed": {
			job:  neverRestarted().Scope(scopeReplica).Saw(20*time.Minute, worker0, pod("job-worker-1", exited(1))),
			seen: reading(readings{"job-worker-1": silent}, worker0, pod("job-worker-1", exited(1))),
			want: result{
				Backoff: 1, Attempt: 1, Deletes: deleted, Reaction: restart, Stalled: batchv1beta1.ReasonNoProgress,
				Failures: []string{"job-worker-1: no exit code, counted", "job-worker-1: exit code 1, counted"},
			},
		},
		"a job that never reports restarts": {job: startupStall, seen: leaderReads(noReport(0)), want: restarted},
		"a stall restarts replicas with the restart policy Never": {
			job: neverRestarted(), seen: leaderReads(silent), want: restarted,
		},
		"a stall restarts all replicas although a failure restarts only its replica": {
			job: reports(600, 0, restart).Scope(scopeReplica), seen: leaderReads(silent), want: restarted,
		},
		"a stall restarts all replicas of an elastic job": {
			job: elastic, seen: leaderReads(silent), want: restarted,
		},
		"a stall does not wait for failures of peers": {
			job: reports(600, 0, restart).Window(time.Minute), seen: leaderReads(silent), want: restarted,
		},
		"a stall that was only notified restarts the job after the policy was changed": {
			job: stalled().Reporting(600, 300, restart), seen: leaderReads(silent), want: restarted,
		},
		"a failure takes precedence over a stall": {
			job: reports(600, 0, restart), seen: reading(readings{"job-worker-0": silent}, worker0, failed),
			want: result{Backoff: 1, Attempt: 1, Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: deleted},
		},
		"a failure that awaits reports takes precedence over a stall": {
			job:  reports(600, 0, restart).Window(time.Minute),
			seen: reading(readings{"job-worker-0": silent}, worker0, failed), want: result{},
		},
		"a failure that has awaited reports takes precedence over a stall": {
			job:  reports(600, 0, restart).Window(2*time.Second).Saw(2*time.Second, worker0, failed),
			seen: reading(readings{"job-worker-0": silent}, worker0, failed),
			want: result{Backoff: 1, Attempt: 1, Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: deleted},
		},
		"a failure that still awaits reports takes precedence over a stall": {
			job:  reports(600, 0, restart).Window(10*time.Second).Saw(2*time.Second, worker0, failed),
			seen: reading(readings{"job-worker-0": silent}, worker0, failed), want: result{},
		},
		"a failure that restarts its replica takes precedence over a stall": {
			job:  reports(600, 0, restart).Scope(scopeReplica),
			seen: reading(readings{"job-worker-0": silent}, worker0, failed),
			want: result{
				Backoff: 1, Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: []string{"job-worker-1"},
			},
		},
		"a deleted pod takes precedence over a stall": {
			job:  reports(600, 0, restart),
			seen: reading(readings{"job-worker-0": silent}, worker0, pod("job-worker-1", running, deleting)),
			want: result{
				Attempt: 1, Failures: []string{"job-worker-1: no exit code, ignored"}, Deletes: []string{"job-worker-0"},
			},
		},
		"the success of the leader takes precedence over a stall": {
			job:  reports(600, 0, restart),
			seen: reading(readings{"job-worker-0": silent}, pod("job-worker-0", exited(0)), worker1),
			want: result{Deletes: []string{"job-worker-1"}},
		},
		"the deadline of the job takes precedence over a stall": {
			job:  reports(600, 0, restart).Deadline(3600),
			seen: leaderReads(silent), want: result{Deletes: deleted},
		},
		"a pause takes precedence over a stall": {
			job: reports(600, 0, restart).Paused(true), seen: leaderReads(silent), want: result{Deletes: deleted},
		},
		"a stalled job with the policy Notify does not restart": {
			job: reports(600, 0, notify), seen: leaderReads(silent),
			want: result{Reaction: notify, Stalled: batchv1beta1.ReasonNoProgress},
		},
		"a missing reading restarts nothing": {job: reports(600, 300, restart), seen: seeing(worker0, worker1)},
		"a reading of the pod of an earlier attempt restarts nothing": {
			job: reports(600, 300, restart).SawIn(leaderReads(readBefore(step(420, 11*time.Minute), time.Minute))).
				Saw(30*time.Second, pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1))),
			seen: func() view.Observation {
				seen := seeing(pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1)))
				seen.Readings = map[types.UID]view.Reading{"job-worker-0-uid-0": silent}
				return seen
			}(),
			want: result{
				Backoff: 1, Attempt: 1, Failures: []string{"job-worker-0: no exit code, counted"},
				Stalled: batchv1beta1.ReasonNoProgress,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.DecideAt(now, tc.seen)
			s := summarize(d)
			diff(t, "decision", tc.want, result{
				Backoff: s.Backoff, Attempt: s.Attempt, Failures: s.Failures, Deletes: s.Deletes, Reaction: d.Stall.Reaction(),
				Stalled: conditionOf(d, batchv1beta1.ConditionStalled).Reason,
			})
		})
	}
}

// neverRestarted returns a job that has run for an hour and whose replicas have the restart policy Never.
func neverRestarted() *jobBuilder {
	return job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Reporting(600, 0, restart).
		Saw(time.Hour, runningPods()...)
}

// If backoffLimit allows no further restart, a stall ends the job. The condition Stalled stays True.
func TestStallEndsTheJob(t *testing.T) {
	t.Parallel()
	j := reports(600, 0, restart).BackoffLimit(0)
	d := j.DecideAt(now, leaderReads(step(420, 10*time.Minute)))
	diff(t, "FailureTarget", condition{
		"True", batchv1beta1.ReasonBackoffLimitExceeded,
		"replica job-worker-0 stalled and runPolicy.backoffLimit (0) allows no further restart: " + stalledAt42,
	}, conditionOf(d, batchv1beta1.ConditionFailureTarget))
	diff(t, "ReplicaFailure", condition{"True", batchv1beta1.ReasonNoProgress, "replica job-worker-0 stalled"},
		conditionOf(d, batchv1beta1.ConditionReplicaFailure))
	diff(t, "stall", stall{Reaction: restart, Stalled: isStalled(stalledAt42), RequeueIn: time.Minute}, stallOf(d))
	diff(t, "failures", []string{"job-worker-0: no exit code, counted"}, summarize(d).Failures)
	if !d.NeedsLiveRead {
		t.Error("the end needs no live read, want one")
	}
	j.Status = d.Status
	for _, pods := range [][]*corev1.Pod{runningPods(), nil} {
		d = j.DecideAt(now, seeing(pods...))
		diff(t, "Stalled after the end", isStalled(stalledAt42), conditionOf(d, batchv1beta1.ConditionStalled))
		j.Status = d.Status
	}
	diff(t, "phase", batchv1beta1.JobPhaseFailed, j.Status.Phase)
}
