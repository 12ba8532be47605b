package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
)

// Messages about a job whose deadline for progress is 600 s and whose deadline for the start is 300 s.
const (
	stalledAt42 = "no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after 42% (420/1000) at " +
		"2026-03-01T11:50:00Z"
	neverReported = "nothing was reported for runPolicy.startupDeadlineSeconds (300 s) since the job runs"
	startedAgain  = "nothing was reported for runPolicy.startupDeadlineSeconds (300 s) after the training started " +
		"again at 2026-03-01T11:55:00Z"
	isOnTime = "the training is within its deadlines again"
)

// stall is the part of a decision that depends on stalls.
type stall struct {
	// Reaction is how the controller reacts to a new stall.
	Reaction batchv1beta1.ProgressPolicy
	Stalled  condition
	// Events are the types, reasons and messages.
	Events []string
	// Backoff is status.backoffCount.
	Backoff int32
	// WakeIn is how long from now the job is requeued. 0 means no requeue.
	WakeIn time.Duration
}

func stallOf(d plan.Decision) stall {
	s := stall{
		Reaction: d.Stall, Stalled: conditionOf(d, batchv1beta1.ConditionStalled), Backoff: d.Status.BackoffCount,
		WakeIn: summarize(d).WakeIn,
	}
	for _, e := range d.Events {
		s.Events = append(s.Events, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
	}
	return s
}

// isStalled is the condition of a stalled job, and isNot the one of a job that is not stalled anymore.
func isStalled(message string) condition {
	return condition{"True", batchv1beta1.ReasonNoProgress, message}
}

func isNot(reason, message string) condition { return condition{"False", reason, message} }

// announcing returns a reading whose training announced to report nothing for a time after it.
func announcing(r plan.Reading, silence time.Duration) plan.Reading {
	r.Announced = silence
	return r
}

// percent returns a reading of a training that has reported a percentage at a time before Now.
func percent(n int32, before time.Duration) plan.Reading {
	return changed(step(0, before), func(p *batchv1beta1.ProgressStatus) {
		*p = batchv1beta1.ProgressStatus{Percent: &n, LastReportTime: p.LastReportTime}
	})
}

// startingAgain returns a reading of a pod whose processes have started again at a time before Now.
func startingAgain(r plan.Reading, before time.Duration) plan.Reading {
	r.Started = now.Add(-before)
	return r
}

// final returns the last reading of a sidecar that has ended.
func final(r plan.Reading) plan.Reading {
	r.IsFinal = true
	return r
}

// leaderReads returns an observation of two running workers with a reading of the leader.
func leaderReads(r plan.Reading) plan.Observation {
	return reading(readings{"job-worker-0": r}, runningPods()...)
}

// readBefore returns a reading that was made at a time before Now.
func readBefore(r plan.Reading, before time.Duration) plan.Reading {
	r.Time = r.Time.Add(-before)
	return r
}

// stalled returns a job that was stalled a minute ago, and has only been notified of it.
func stalled() *jobBuilder {
	r := step(420, 10*time.Minute-time.Minute)
	r.Time, r.Silence = now.Add(-time.Minute), 10*time.Minute
	return reports(600, 300, notify).SawIn(leaderReads(r))
}

// anywhere makes each replica of a job one that might report.
func anywhere(j *jobBuilder) *jobBuilder {
	j.Spec.FirstProcess = framework.FirstProcessAnywhere
	return j
}

func TestStall(t *testing.T) {
	t.Parallel()
	const second, minute = time.Second, time.Minute
	worker0, worker1 := runningPods()[0], runningPods()[1]
	noted := stall{
		Reaction: notify, Stalled: isStalled(stalledAt42),
		Events: []string{"Warning Stalled: replica job-worker-0: " + stalledAt42}, WakeIn: 30 * second,
	}
	debugged := func(j *jobBuilder) *jobBuilder {
		j.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
		return j
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen plan.Observation
		want stall
	}{
		"a job without deadlines is never stalled": {
			job: reports(0, 0, ""), seen: leaderReads(step(420, 50*minute)), want: stall{WakeIn: 30 * second},
		},
		"a job is stalled at its deadline": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, 10*minute)), want: noted,
		},
		"the policy defaults to Notify": {
			job: reports(600, 0, ""), seen: leaderReads(step(420, 10*minute)), want: noted,
		},
		"a job is not stalled a second before its deadline": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, 10*minute-second)), want: stall{WakeIn: 15 * second},
		},
		"a job is requeued at its deadline": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, 10*minute-20*second)),
			want: stall{WakeIn: 20 * second},
		},
		"a reading before the deadline shows no stall after it": {
			job:  reports(600, 0, notify),
			seen: leaderReads(readBefore(step(420, 10*minute-15*second), 15*second)), want: stall{WakeIn: 15 * second},
		},
		"the deadline begins when the job runs": {
			job: started(notify, 5*minute), seen: leaderReads(step(420, 10*minute)), want: stall{WakeIn: 30 * second},
		},
		"a job whose step is older than its run is stalled at the deadline of its run": {
			job: started(notify, 10*minute), seen: leaderReads(step(420, 20*minute)), want: noted,
		},
		"an announced silence extends the deadline": {
			job: reports(600, 0, notify), seen: leaderReads(announcing(step(420, 15*minute), 20*second)),
			want: stall{WakeIn: 20 * second},
		},
		"an announced silence does not shorten the deadline": {
			job: reports(600, 0, notify), seen: leaderReads(announcing(step(420, 10*minute-25*second), second)),
			want: stall{WakeIn: 25 * second},
		},
		"a job is stalled when the announced silence is over": {
			job: reports(600, 0, notify), seen: leaderReads(announcing(step(420, 10*minute), 0)), want: noted,
		},
		"a training that starts again has as much time as at its start": {
			job: reports(60, 600, notify), seen: leaderReads(startingAgain(step(420, 50*minute), 10*minute-20*second)),
			want: stall{WakeIn: 20 * second},
		},
		"a training that starts again and reports nothing is stalled, even after 100 percent": {
			job: reports(600, 300, notify), seen: leaderReads(startingAgain(step(1000, 6*minute), 5*minute)),
			want: stall{
				Reaction: notify, Stalled: isStalled(startedAgain),
				Events: []string{"Warning Stalled: replica job-worker-0: " + startedAgain}, WakeIn: 30 * second,
			},
		},
		"a training that starts again is not stalled without a deadline for the start": {
			job: reports(60, 0, notify), seen: leaderReads(startingAgain(step(420, 50*minute), 50*minute)),
			want: stall{WakeIn: 30 * second},
		},
		"the deadline for the start applies also if the other deadline is unset": {
			job: reports(0, 600, notify), seen: leaderReads(startingAgain(step(420, 50*minute), 10*minute-20*second)),
			want: stall{WakeIn: 20 * second},
		},
		"an announced silence extends the deadline of a training that starts again": {
			job:  reports(60, 600, notify),
			seen: leaderReads(announcing(startingAgain(step(420, 50*minute), 15*minute), 20*second)),
			want: stall{WakeIn: 20 * second},
		},
		"another replica can see that the training starts again": {
			job: anywhere(reports(60, 600, notify)),
			seen: reading(readings{
				"job-worker-0": step(420, 50*minute), "job-worker-1": startingAgain(plan.Reading{Time: now}, minute),
			}, runningPods()...),
			want: stall{WakeIn: 30 * second},
		},
		"a start before the last step does not count": {
			job: anywhere(reports(600, 0, notify)),
			seen: reading(readings{
				"job-worker-0": step(420, 10*minute), "job-worker-1": startingAgain(plan.Reading{Time: now}, 11*minute),
			}, runningPods()...),
			want: noted,
		},
		"a training that starts again before its first report has its deadline from then": {
			job: reports(600, 300, notify), seen: leaderReads(startingAgain(plan.Reading{Time: now}, minute)),
			want: stall{WakeIn: 30 * second},
		},
		"a job that has reported 100 percent is not stalled": {
			job: reports(600, 0, notify), seen: leaderReads(step(1000, 50*minute)), want: stall{WakeIn: 30 * second},
		},
		"a job that reports percentages is stalled at 99 percent": {
			job: reports(600, 0, notify), seen: leaderReads(percent(99, 10*minute)),
			want: func() stall {
				const message = "no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after the first " +
					"report at 2026-03-01T11:50:00Z"
				return stall{
					Reaction: notify, Stalled: isStalled(message),
					Events: []string{"Warning Stalled: replica job-worker-0: " + message}, WakeIn: 30 * second,
				}
			}(),
		},
		"a job that reports only steps is stalled": {
			job: reports(600, 0, notify),
			seen: leaderReads(changed(step(420, 10*minute), func(p *batchv1beta1.ProgressStatus) {
				p.Percent, p.TotalSteps = nil, nil
			})),
			want: noted,
		},
		"without a reading it is unknown whether a job is stalled": {
			job: reports(600, 0, notify), seen: seeing(worker0, worker1), want: stall{WakeIn: 30 * second},
		},
		"a job that stays silent is stalled once": {
			job: stalled(), seen: leaderReads(step(420, 11*minute)),
			want: stall{Stalled: isStalled("no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after " +
				"42% (420/1000) at 2026-03-01T11:49:00Z"), WakeIn: 30 * second},
		},
		"a stall ends with the next step": {
			job: stalled(), seen: leaderReads(step(421, second)),
			want: stall{
				Stalled: isNot(batchv1beta1.ReasonProgressing, isOnTime), Events: []string{"Normal Progressing: " + isOnTime},
				WakeIn: 30 * second,
			},
		},
		"a stall ends when the deadline is raised": {
			job: stalled().Reporting(3600, 0, notify), seen: leaderReads(step(420, 11*minute)),
			want: stall{
				Stalled: isNot(batchv1beta1.ReasonProgressing, isOnTime), Events: []string{"Normal Progressing: " + isOnTime},
				WakeIn: 30 * second,
			},
		},
		"a stall ends when the deadline is removed": {
			job: stalled().Reporting(0, 300, notify), seen: leaderReads(step(420, 11*minute)),
			want: stall{
				Stalled: isNot(batchv1beta1.ReasonProgressing, isOnTime), Events: []string{"Normal Progressing: " + isOnTime},
				WakeIn: 30 * second,
			},
		},
		"a stall stays while no pod can be read": {
			job: stalled(), seen: seeing(worker0, worker1),
			want: stall{Stalled: isStalled("no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after " +
				"42% (420/1000) at 2026-03-01T11:49:00Z"), WakeIn: 30 * second},
		},
		"a job that never reports is stalled at its deadline for the start": {
			job: started(notify, 5*minute), seen: leaderReads(noReport(0)),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"a job is not stalled until the pod of a replica that it no longer needs is gone": {
			job:  reports(600, 0, notify),
			seen: reading(readings{"job-worker-0": step(420, 10*minute)}, worker0, worker1, pod("job-worker-2", running)),
			want: stall{WakeIn: 30 * second},
		},
		"a job that never reports is not stalled a second before its deadline": {
			job: started(notify, 5*minute-second), seen: leaderReads(noReport(0)), want: stall{WakeIn: 15 * second},
		},
		"a job that never reports is requeued at its deadline for the start": {
			job: started(notify, 5*minute-20*second), seen: leaderReads(noReport(0)), want: stall{WakeIn: 20 * second},
		},
		"a reading before the deadline shows no missing report after it": {
			job: started(notify, 5*minute), seen: leaderReads(noReport(second)), want: stall{WakeIn: 15 * second},
		},
		"the job is read again if no pod could be read at the deadline for the start": {
			job: started(notify, 20*minute), seen: seeing(worker0, worker1), want: stall{WakeIn: 30 * second},
		},
		"a job that never reports has no deadline for progress": {
			job: reports(600, 0, notify), seen: leaderReads(noReport(0)), want: stall{WakeIn: 30 * second},
		},
		"a reporter without a reading might have reported": {
			job: anywhere(started(notify, 20*minute)), seen: leaderReads(noReport(0)), want: stall{WakeIn: 30 * second},
		},
		"a job is stalled when every reporter was read": {
			job:  anywhere(started(notify, 20*minute)),
			seen: reading(readings{"job-worker-0": noReport(0), "job-worker-1": noReport(0)}, worker0, worker1),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"a job is stalled although the sidecar that reported last has ended": {
			job: reports(600, 0, notify), seen: leaderReads(final(readBefore(step(420, 5*minute), 5*minute))), want: noted,
		},
		"the silence that a training announced before its sidecar ended is over, too": {
			job: reports(600, 0, notify), seen: leaderReads(final(announcing(readBefore(step(420, 5*minute), 5*minute),
				5*minute))), want: noted,
		},
		"a replica that does not run is not awaited": {
			job: anywhere(job(role("worker", 2)).Elastic(1, 2).Reporting(0, 300, notify)).
				Saw(time.Hour, worker0, pod("job-worker-1")),
			seen: reading(readings{"job-worker-0": {Time: now}}, worker0, pod("job-worker-1")),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"a job is not stalled if any reporter has reported": {
			job:  anywhere(started(notify, 20*minute)),
			seen: reading(readings{"job-worker-0": noReport(0), "job-worker-1": step(420, second)}, worker0, worker1),
			want: stall{WakeIn: 30 * second},
		},
		"a reporter that has ended is not awaited": {
			job: anywhere(started(notify, 20*minute)).Saw(10*minute, worker0, pod("job-worker-1", exited(0))),
			seen: reading(readings{"job-worker-0": noReport(0)}, worker0,
				pod("job-worker-1", exited(0))),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"another pod of a reporter that has ended is not awaited": {
			job:  anywhere(started(notify, 20*minute)).Saw(10*minute, worker0, pod("job-worker-1", exited(0))),
			seen: reading(readings{"job-worker-0": noReport(0)}, worker0, another("job-worker-1")),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"a job that could not be read yet is requeued at its deadline for the start": {
			job: started(notify, 5*minute-20*second), seen: seeing(worker0, worker1), want: stall{WakeIn: 20 * second},
		},
		"a job that cannot be read anymore is not requeued for its deadline for the start": {
			job: started(notify, 5*minute+30*second), seen: leaderReads(plan.Reading{
				Time: now.Add(-minute), Problem: "connection refused",
			}), want: stall{WakeIn: 30 * second},
		},
		"a job whose sidecar was restarted has reported": {
			job: withProgress(started(notify, 20*minute), step(420, 10*minute)), seen: leaderReads(noReport(0)),
			want: stall{WakeIn: 30 * second},
		},
		"a recorded report without a time does not count as the start": {
			job: withProgress(started(notify, 5*minute),
				changed(step(420, minute), func(p *batchv1beta1.ProgressStatus) { p.LastReportTime = nil })),
			seen: leaderReads(noReport(0)),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"a job that ends is not requeued at its deadline": {
			job:  reports(600, 0, notify).GivePeers(minute),
			seen: reading(readings{"job-worker-0": step(420, 10*minute-20*second)}, pod("job-worker-0", exited(0)), worker1),
			want: stall{WakeIn: minute},
		},
		"a report of an earlier attempt does not count as the start": {
			job: withProgress(started(notify, 5*minute), step(420, 10*minute)), seen: leaderReads(noReport(0)),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, WakeIn: 30 * second,
			},
		},
		"a job that ends is not stalled": {
			job:  reports(600, 0, notify),
			seen: reading(readings{"job-worker-0": step(420, 10*minute)}, pod("job-worker-0", exited(0)), worker1),
			want: stall{WakeIn: minute},
		},
		"a job in debug mode is not stalled": {
			job: debugged(reports(600, 0, restart)), seen: leaderReads(step(420, 11*minute)), want: stall{WakeIn: 30 * second},
		},
		"a job that does not run yet is not stalled": {
			job:  job(role("worker", 2)).Reporting(600, 300, restart).Saw(time.Hour, worker0, pod("job-worker-1")),
			seen: reading(readings{"job-worker-0": step(420, 20*minute)}, worker0, pod("job-worker-1")),
		},
		"a job that replaces a replica is not stalled": {
			job: reports(600, 300, restart).Scope(scopeReplica).Saw(minute, worker0, pod("job-worker-1", exited(1))),
			seen: reading(readings{"job-worker-0": step(420, 20*minute)}, worker0,
				pod("job-worker-1", againAlone(1))),
			want: stall{Backoff: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "stall", tc.want, stallOf(tc.job.DecideAt(now, tc.seen)))
		})
	}
}

// A stall with the policy Restart restarts all replicas like a failure of the whole job, and counts once.
func TestAStallIsReportedOnlyOnALiveRead(t *testing.T) {
	t.Parallel()
	stalled := leaderReads(step(420, 10*time.Minute))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen plan.Observation
		want bool
	}{
		"a stall that is only reported requires a live read": {job: reports(600, 0, notify), seen: stalled, want: true},
		"a stall that restarts the job requires a live read": {job: reports(600, 0, restart), seen: stalled, want: true},
		"a stall that was reported before requires no live read": {
			job: reports(600, 0, notify).SawIn(stalled), seen: stalled,
		},
		"a training within its deadline requires no live read": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, time.Minute)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "NeedsLiveRead", tc.want, plan.Decide(tc.job.Job, tc.seen, now).NeedsLiveRead)
		})
	}
}

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
	diff(t, "restarts", []plan.Restart{{Cause: batchv1beta1.ReasonNoProgress, Counted: true}}, d.Restarts)
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

// The condition Stalled stays True until the attempt that a stall has begun reports.
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
			diff(t, "whether the job runs again", true, plan.IsRunning(j.Status))
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
		// Reaction is how the controller reacts to a new stall, and Stalled is the reason of the condition Stalled.
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
		seen plan.Observation
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
		"a stall does not wait for reports of peers": {
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
			seen: func() plan.Observation {
				seen := seeing(pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1)))
				seen.Readings = map[types.UID]plan.Reading{"job-worker-0-uid-0": silent}
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
				Backoff: s.Backoff, Attempt: s.Attempt, Failures: s.Failures, Deletes: s.Deletes, Reaction: d.Stall,
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

// started returns a job that began to run at a time before now.
func started(policy batchv1beta1.ProgressPolicy, before time.Duration) *jobBuilder {
	return job(role("worker", 2)).Reporting(600, 300, policy).Saw(before, runningPods()...)
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
	diff(t, "stall", stall{Reaction: restart, Stalled: isStalled(stalledAt42), WakeIn: time.Minute}, stallOf(d))
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

// A stalled job is not stalled anymore when its training stops for another reason.
func TestStallEndsWithTheTraining(t *testing.T) {
	t.Parallel()
	silent := step(420, 11*time.Minute)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen plan.Observation
	}{
		"a pause ends a stall": {job: stalled().Paused(true), seen: leaderReads(silent)},
		"the success of the leader ends a stall": {
			job:  stalled(),
			seen: reading(readings{"job-worker-0": silent}, pod("job-worker-0", exited(0)), pod("job-worker-1", running)),
		},
		"the deadline of the job ends a stall": {job: stalled().Deadline(3600), seen: leaderReads(silent)},
		"a failure that ends the job ends a stall": {
			job:  stalled().BackoffLimit(0),
			seen: reading(readings{"job-worker-0": silent}, pod("job-worker-0", running), pod("job-worker-1", exited(1))),
		},
		"an eviction ends a stall": {job: stalled(), seen: evictedFrom(leaderReads(silent))},
		"an eviction ends a stall although the policy is Restart": {
			job: stalled().Reporting(600, 300, restart), seen: evictedFrom(leaderReads(silent)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.DecideAt(now, tc.seen)
			got := stallOf(d)
			diff(t, "Stalled", isNot(batchv1beta1.ReasonNotRunning, "the training does not run anymore"), got.Stalled)
			diff(t, "reaction", batchv1beta1.ProgressPolicy(""), got.Reaction)
			diff(t, "backoffCount", int32(0), got.Backoff)
		})
	}
}

// unreadable returns the reading of a pod that was read last at a time before now.
func unreadable(before time.Duration) plan.Reading {
	r := readBefore(step(420, 0), before)
	r.Problem = "connection refused"
	return r
}

func TestProgressThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const unread = "the progress of replica job-worker-0 cannot be read: connection refused"
	unknown := condition{"Unknown", batchv1beta1.ReasonProgressUnknown, unread}
	ended := pod("job-worker-1", exited(0))
	wasUnread := func(policy batchv1beta1.ProgressPolicy) *jobBuilder {
		return reports(600, 0, policy).SawIn(leaderReads(readBefore(unreadable(5*time.Minute), time.Minute)))
	}
	for name, tc := range map[string]struct {
		job        *jobBuilder
		seen       plan.Observation
		want       condition
		wantEvents []string
	}{
		"is shown after two minutes": {
			job: reports(600, 0, notify), seen: leaderReads(unreadable(2 * time.Minute)),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"is shown if it could never be read": {
			job: reports(0, 600, notify), seen: leaderReads(plan.Reading{Problem: "connection refused"}),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"is not shown before two minutes": {job: reports(600, 0, notify), seen: leaderReads(unreadable(119 * time.Second))},
		"is not shown before the job has run for two minutes": {
			job: started(notify, time.Minute), seen: leaderReads(plan.Reading{Problem: "connection refused"}),
		},
		"is not shown by a job without deadlines": {job: reports(0, 0, ""), seen: leaderReads(unreadable(time.Hour))},
		"is not shown if another pod that might report can be read": {
			job: anywhere(reports(600, 0, notify)), seen: reading(readings{
				"job-worker-0": unreadable(time.Hour), "job-worker-1": {Time: now},
			}, runningPods()...),
		},
		"names the first of the pods that cannot be read": {
			job: anywhere(reports(600, 0, notify)), seen: reading(readings{
				"job-worker-0": unreadable(time.Hour), "job-worker-1": unreadable(time.Hour),
			}, runningPods()...),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"is shown although another pod that might report has ended": {
			job: anywhere(reports(600, 0, notify)), seen: reading(readings{"job-worker-0": unreadable(time.Hour)},
				pod("job-worker-0", running), ended),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"is shown although a replica that has ended has another pod": {
			job: anywhere(reports(600, 0, notify)).Saw(time.Minute, pod("job-worker-0", running), ended),
			seen: reading(readings{"job-worker-0": unreadable(time.Hour)},
				pod("job-worker-0", running), another("job-worker-1")),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"stays unknown although the last report of a pod that has ended is known": {
			job: anywhere(wasUnread(notify)), want: unknown,
			seen: reading(readings{"job-worker-0": unreadable(time.Hour), "job-worker-1": final(step(420, time.Second))},
				pod("job-worker-0", running), ended),
		},
		"stays unknown until a pod has been read": {job: wasUnread(notify), seen: seeing(runningPods()...), want: unknown},
		"stays unknown if the last read failed": {
			job: wasUnread(notify), seen: leaderReads(unreadable(time.Minute)), want: unknown,
		},
		"does not matter anymore when the deadline is removed": {
			job: wasUnread(notify).Reporting(0, 0, notify), seen: leaderReads(unreadable(time.Hour)),
			want: isNot(batchv1beta1.ReasonProgressing, "the progress can be read again, or there is no deadline anymore"),
		},
		"is announced only once": {job: wasUnread(notify), seen: leaderReads(unreadable(6 * time.Minute)), want: unknown},
		"is not a stall":         {job: wasUnread(restart), seen: leaderReads(unreadable(time.Hour)), want: unknown},
		"can be read again": {
			job: wasUnread(notify), seen: leaderReads(step(421, time.Minute)),
			want: isNot(batchv1beta1.ReasonProgressing, "the progress can be read again, or there is no deadline anymore"),
		},
		"does not matter anymore when the job is paused": {
			job: wasUnread(notify).Paused(true), seen: leaderReads(unreadable(time.Hour)),
			want: isNot(batchv1beta1.ReasonNotRunning, "the training does not run anymore"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := stallOf(tc.job.DecideAt(now, tc.seen))
			diff(t, "Stalled", tc.want, got.Stalled)
			diff(t, "events", tc.wantEvents, got.Events)
			diff(t, "backoffCount", int32(0), got.Backoff)
		})
	}
}

// The last report of the attempt before can be in the second in which the job runs again.
func TestATrainingThatReportsNothingIsStalledAlthoughTheAttemptBeforeReported(t *testing.T) {
	t.Parallel()
	run := []*corev1.Pod{pod("job-worker-0", running)}
	for name, tc := range map[string]struct {
		reported time.Duration // after the job began to run
		want     bool
	}{
		"the attempt before reported in the same second": {reported: 0, want: true},
		"another sidecar reported a second later":        {reported: time.Second, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Saw(time.Hour, run...)
			j.Spec.ReportsProgress = true
			j.Spec.RunPolicy.StartupDeadlineSeconds = new(int64(600))
			since := meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionRunning).LastTransitionTime
			j.Status.Progress = &batchv1beta1.ProgressStatus{LastReportTime: new(metav1.NewTime(since.Add(tc.reported)))}
			seen := seeing(run...)
			seen.Readings = map[types.UID]plan.Reading{run[0].UID: {Time: now}}
			d := j.DecideAt(now, seen)
			if got := meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionStalled); got != tc.want {
				t.Errorf("the condition Stalled is %t, want %t", got, tc.want)
			}
		})
	}
}

// The sidecar of a running job was restarted, or the pod that reported was replaced. Then nothing is known about the
// time before.
func TestStallOfATrainingThatReportedToAnotherSidecar(t *testing.T) {
	t.Parallel()
	const message = "no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after 42% (420/1000)"
	reported := func(limit int64) *jobBuilder {
		return reports(limit, 300, notify).SawIn(leaderReads(readBefore(step(420, time.Minute), 30*time.Minute)))
	}
	since := func(start time.Duration) plan.Observation {
		return leaderReads(plan.Reading{Time: now, Silence: start})
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen plan.Observation
		want condition
	}{
		"the deadline for progress begins with the new sidecar": {job: reported(600), seen: since(599 * time.Second)},
		"the training is stalled if it reports nothing to the new sidecar": {
			job: reported(600), seen: since(600 * time.Second), want: isStalled(message),
		},
		"the deadline for the start does not apply": {job: reported(0), seen: since(time.Hour)},
		"a training that has reported no step is stalled, too": {
			job:  reports(600, 300, notify).SawIn(leaderReads(readBefore(percent(42, time.Minute), 30*time.Minute))),
			seen: since(600 * time.Second),
			want: isStalled("no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after the first " +
				"report"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "Stalled", tc.want, stallOf(tc.job.DecideAt(now, tc.seen)).Stalled)
		})
	}
}

// A job with the policy Notify that has reported nothing is stalled.
func TestAMissingReportIsNotAStallAfterTheDeadlineWasChanged(t *testing.T) {
	t.Parallel()
	silent := leaderReads(plan.Reading{Time: now, Silence: time.Hour})
	for name, tc := range map[string]struct {
		seconds int64
		read    time.Duration // before now
		want    condition
	}{
		"the deadline is the same": {seconds: 300, want: isStalled(neverReported)},
		"the deadline was raised":  {seconds: 7200, want: isNot(batchv1beta1.ReasonProgressing, isOnTime)},
		"the deadline was removed": {seconds: 0, want: isNot(batchv1beta1.ReasonProgressing, isOnTime)},
		"the deadline was raised and is over, but the job was not read since then": {
			seconds: 3600, read: 10 * time.Second, want: isStalled(neverReported),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := reports(0, 300, notify)
			j.Status = j.DecideAt(now, silent).Status
			seen := leaderReads(plan.Reading{Time: now.Add(-tc.read), Silence: time.Hour})
			diff(t, "Stalled", tc.want, stallOf(j.Reporting(0, tc.seconds, notify).DecideAt(now, seen)).Stalled)
		})
	}
}

// After a restart of the controller, nothing has been read yet. A report in the second in which the job began to run
// might be of the attempt before, so the status does not show that the deadline for the start is met.
func TestAStallDoesNotEndBeforeTheProgressIsRead(t *testing.T) {
	t.Parallel()
	for name, startup := range map[string]int64{
		"the deadline for the start is not over": 24 * 3600,
		"there is no deadline for the start":     0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := stalled().Reporting(600, startup, notify)
			runs := meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionRunning)
			j.Status.Progress.LastReportTime = &runs.LastTransitionTime
			want := meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionStalled).Message
			diff(t, "Stalled", isStalled(want), stallOf(j.Sees(runningPods()...)).Stalled)
		})
	}
}
