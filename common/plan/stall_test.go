package plan_test

import (
	"testing"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// announcing returns the reading with an announcement: the training will report no step for the given time after the
// reading.
func announcing(r view.Reading, silence time.Duration) view.Reading {
	r.Announced = silence
	return r
}

// startingAgain returns the reading of a pod whose processes have started again. The parameter before is how long ago
// they started.
func startingAgain(r view.Reading, before time.Duration) view.Reading {
	r.Started = now.Add(-before)
	return r
}

func TestStall(t *testing.T) {
	t.Parallel()
	const second, minute = time.Second, time.Minute
	worker0, worker1 := runningPods()[0], runningPods()[1]
	noted := stall{
		Reaction: notify, Stalled: isStalled(stalledAt42),
		Events: []string{"Warning Stalled: replica job-worker-0: " + stalledAt42}, RequeueIn: 30 * second,
	}
	debugged := func(j *jobBuilder) *jobBuilder {
		j.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
		return j
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
		want stall
	}{
		"a job without deadlines is never stalled": {
			job: reports(0, 0, ""), seen: leaderReads(step(420, 50*minute)), want: stall{RequeueIn: 30 * second},
		},
		"a job is stalled at its deadline": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, 10*minute)), want: noted,
		},
		"the policy defaults to Notify": {
			job: reports(600, 0, ""), seen: leaderReads(step(420, 10*minute)), want: noted,
		},
		"a job is not stalled a second before its deadline": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, 10*minute-second)), want: stall{RequeueIn: 15 * second},
		},
		"a job is requeued at its deadline": {
			job: reports(600, 0, notify), seen: leaderReads(step(420, 10*minute-20*second)),
			want: stall{RequeueIn: 20 * second},
		},
		"a reading before the deadline shows no stall after it": {
			job:  reports(600, 0, notify),
			seen: leaderReads(readBefore(step(420, 10*minute-15*second), 15*second)), want: stall{RequeueIn: 15 * second},
		},
		"the deadline begins when the job runs": {
			job: started(notify, 5*minute), seen: leaderReads(step(420, 10*minute)), want: stall{RequeueIn: 30 * second},
		},
		"a job whose step is older than its run is stalled at the deadline of its run": {
			job: started(notify, 10*minute), seen: leaderReads(step(420, 20*minute)), want: noted,
		},
		"an announced silence extends the deadline": {
			job: reports(600, 0, notify), seen: leaderReads(announcing(step(420, 15*minute), 20*second)),
			want: stall{RequeueIn: 20 * second},
		},
		"an announced silence does not shorten the deadline": {
			job: reports(600, 0, notify), seen: leaderReads(announcing(step(420, 10*minute-25*second), second)),
			want: stall{RequeueIn: 25 * second},
		},
		"a job is stalled when the announced silence is over": {
			job: reports(600, 0, notify), seen: leaderReads(announcing(step(420, 10*minute), 0)), want: noted,
		},
		"a training that starts again has as much time as at its start": {
			job: reports(60, 600, notify), seen: leaderReads(startingAgain(step(420, 50*minute), 10*minute-20*second)),
			want: stall{RequeueIn: 20 * second},
		},
		"a training that starts again and reports nothing is stalled, even after 100 percent": {
			job: reports(600, 300, notify), seen: leaderReads(startingAgain(step(1000, 6*minute), 5*minute)),
			want: stall{
				Reaction: notify, Stalled: isStalled(startedAgain),
				Events: []string{"Warning Stalled: replica job-worker-0: " + startedAgain}, RequeueIn: 30 * second,
			},
		},
		"a training that starts again is not stalled without a deadline for the start": {
			job: reports(60, 0, notify), seen: leaderReads(startingAgain(step(420, 50*minute), 50*minute)),
			want: stall{RequeueIn: 30 * second},
		},
		"the deadline for the start applies also if the other deadline is unset": {
			job: reports(0, 600, notify), seen: leaderReads(startingAgain(step(420, 50*minute), 10*minute-20*second)),
			want: stall{RequeueIn: 20 * second},
		},
		"an announced silence extends the deadline of a training that starts again": {
			job:  reports(60, 600, notify),
			seen: leaderReads(announcing(startingAgain(step(420, 50*minute), 15*minute), 20*second)),
			want: stall{RequeueIn: 20 * second},
		},
		"another replica can see that the training starts again": {
			job: anywhere(reports(60, 600, notify)),
			seen: reading(readings{
				"job-worker-0": step(420, 50*minute), "job-worker-1": startingAgain(view.Reading{Time: now}, minute),
			}, runningPods()...),
			want: stall{RequeueIn: 30 * second},
		},
		"a start before the last step does not count": {
			job: anywhere(reports(600, 0, notify)),
			seen: reading(readings{
				"job-worker-0": step(420, 10*minute), "job-worker-1": startingAgain(view.Reading{Time: now}, 11*minute),
			}, runningPods()...),
			want: noted,
		},
		"a training that starts again before its first report has its deadline from then": {
			job: reports(600, 300, notify), seen: leaderReads(startingAgain(view.Reading{Time: now}, minute)),
			want: stall{RequeueIn: 30 * second},
		},
		"a job that has reported 100 percent is not stalled": {
			job: reports(600, 0, notify), seen: leaderReads(step(1000, 50*minute)), want: stall{RequeueIn: 30 * second},
		},
		"a job that reports percentages is stalled at 99 percent": {
			job: reports(600, 0, notify), seen: leaderReads(percent(99, 10*minute)),
			want: func() stall {
				const message = "no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after the first " +
					"report at 2026-03-01T11:50:00Z"
				return stall{
					Reaction: notify, Stalled: isStalled(message),
					Events: []string{"Warning Stalled: replica job-worker-0: " + message}, RequeueIn: 30 * second,
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
			job: reports(600, 0, notify), seen: seeing(worker0, worker1), want: stall{RequeueIn: 30 * second},
		},
		"a job that stays silent is stalled once": {
			job: stalled(), seen: leaderReads(step(420, 11*minute)),
			want: stall{Stalled: isStalled("no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after " +
				"42% (420/1000) at 2026-03-01T11:49:00Z"), RequeueIn: 30 * second},
		},
		"a stall ends with the next step": {
			job: stalled(), seen: leaderReads(step(421, second)),
			want: stall{
				Stalled: isNot(batchv1beta1.ReasonProgressing, isOnTime), Events: []string{"Normal Progressing: " + isOnTime},
				RequeueIn: 30 * second,
			},
		},
		"a stall ends when the deadline is raised": {
			job: stalled().Reporting(3600, 0, notify), seen: leaderReads(step(420, 11*minute)),
			want: stall{
				Stalled: isNot(batchv1beta1.ReasonProgressing, isOnTime), Events: []string{"Normal Progressing: " + isOnTime},
				RequeueIn: 30 * second,
			},
		},
		"a stall ends when the deadline is removed": {
			job: stalled().Reporting(0, 300, notify), seen: leaderReads(step(420, 11*minute)),
			want: stall{
				Stalled: isNot(batchv1beta1.ReasonProgressing, isOnTime), Events: []string{"Normal Progressing: " + isOnTime},
				RequeueIn: 30 * second,
			},
		},
		"a stall stays while no pod can be read": {
			job: stalled(), seen: seeing(worker0, worker1),
			want: stall{Stalled: isStalled("no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after " +
				"42% (420/1000) at 2026-03-01T11:49:00Z"), RequeueIn: 30 * second},
		},
		"a job that never reports is stalled at its deadline for the start": {
			job: started(notify, 5*minute), seen: leaderReads(noReport(0)),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
			},
		},
		"a job is not stalled until the pod of a replica that it no longer needs is gone": {
			job:  reports(600, 0, notify),
			seen: reading(readings{"job-worker-0": step(420, 10*minute)}, worker0, worker1, pod("job-worker-2", running)),
			want: stall{RequeueIn: 30 * second},
		},
		"a job that never reports is not stalled a second before its deadline": {
			job: started(notify, 5*minute-second), seen: leaderReads(noReport(0)), want: stall{RequeueIn: 15 * second},
		},
		"a job that never reports is requeued at its deadline for the start": {
			job: started(notify, 5*minute-20*second), seen: leaderReads(noReport(0)), want: stall{RequeueIn: 20 * second},
		},
		"a reading before the deadline shows no missing report after it": {
			job: started(notify, 5*minute), seen: leaderReads(noReport(second)), want: stall{RequeueIn: 15 * second},
		},
		"the job is read again if no pod could be read at the deadline for the start": {
			job: started(notify, 20*minute), seen: seeing(worker0, worker1), want: stall{RequeueIn: 30 * second},
		},
		"a job that never reports has no deadline for progress": {
			job: reports(600, 0, notify), seen: leaderReads(noReport(0)), want: stall{RequeueIn: 30 * second},
		},
		"a reporter without a reading might have reported": {
			job: anywhere(started(notify, 20*minute)), seen: leaderReads(noReport(0)), want: stall{RequeueIn: 30 * second},
		},
		"a job is stalled when every reporter was read": {
			job:  anywhere(started(notify, 20*minute)),
			seen: reading(readings{"job-worker-0": noReport(0), "job-worker-1": noReport(0)}, worker0, worker1),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
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
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
			},
		},
		"a job is not stalled if any reporter has reported": {
			job:  anywhere(started(notify, 20*minute)),
			seen: reading(readings{"job-worker-0": noReport(0), "job-worker-1": step(420, second)}, worker0, worker1),
			want: stall{RequeueIn: 30 * second},
		},
		"a reporter that has ended is not awaited": {
			job: anywhere(started(notify, 20*minute)).Saw(10*minute, worker0, pod("job-worker-1", exited(0))),
			seen: reading(readings{"job-worker-0": noReport(0)}, worker0,
				pod("job-worker-1", exited(0))),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
			},
		},
		"another pod of a reporter that has ended is not awaited": {
			job:  anywhere(started(notify, 20*minute)).Saw(10*minute, worker0, pod("job-worker-1", exited(0))),
			seen: reading(readings{"job-worker-0": noReport(0)}, worker0, another("job-worker-1")),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
			},
		},
		"a job that could not be read yet is requeued at its deadline for the start": {
			job: started(notify, 5*minute-20*second), seen: seeing(worker0, worker1), want: stall{RequeueIn: 20 * second},
		},
		"a job that cannot be read anymore is not requeued for its deadline for the start": {
			job: started(notify, 5*minute+30*second), seen: leaderReads(view.Reading{
				Time: now.Add(-minute), Problem: "connection refused",
			}), want: stall{RequeueIn: 30 * second},
		},
		"a job whose sidecar was restarted has reported": {
			job: withProgress(started(notify, 20*minute), step(420, 10*minute)), seen: leaderReads(noReport(0)),
			want: stall{RequeueIn: 30 * second},
		},
		"a recorded report without a time does not count as the start": {
			job: withProgress(started(notify, 5*minute),
				changed(step(420, minute), func(p *batchv1beta1.ProgressStatus) { p.LastReportTime = nil })),
			seen: leaderReads(noReport(0)),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
			},
		},
		"a job that ends is not requeued at its deadline": {
			job:  reports(600, 0, notify).GivePeers(minute),
			seen: reading(readings{"job-worker-0": step(420, 10*minute-20*second)}, pod("job-worker-0", exited(0)), worker1),
			want: stall{RequeueIn: minute},
		},
		"a report of an earlier attempt does not count as the start": {
			job: withProgress(started(notify, 5*minute), step(420, 10*minute)), seen: leaderReads(noReport(0)),
			want: stall{
				Reaction: notify, Stalled: isStalled(neverReported),
				Events: []string{"Warning Stalled: replica job-worker-0: " + neverReported}, RequeueIn: 30 * second,
			},
		},
		"a job that ends is not stalled": {
			job:  reports(600, 0, notify),
			seen: reading(readings{"job-worker-0": step(420, 10*minute)}, pod("job-worker-0", exited(0)), worker1),
			want: stall{RequeueIn: minute},
		},
		"a job in debug mode is not stalled": {
			job: debugged(reports(600, 0, restart)), seen: leaderReads(step(420, 11*minute)),
			want: stall{RequeueIn: 30 * second},
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

// A cache might lack the failure that made the training hang. So the controller decides about a new stall on a live
// read.
func TestAStallIsReportedOnlyOnALiveRead(t *testing.T) {
	t.Parallel()
	stalled := leaderReads(step(420, 10*time.Minute))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
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
