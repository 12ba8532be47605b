package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// unreadable returns the reading of a pod that cannot be read anymore. The parameter before is how long ago the pod
// was last read.
func unreadable(before time.Duration) view.Reading {
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
		seen       view.Observation
		want       condition
		wantEvents []string
	}{
		"is shown after two minutes": {
			job: reports(600, 0, notify), seen: leaderReads(unreadable(2 * time.Minute)),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"is shown if it could never be read": {
			job: reports(0, 600, notify), seen: leaderReads(view.Reading{Problem: "connection refused"}),
			want: unknown, wantEvents: []string{"Warning ProgressUnknown: " + unread},
		},
		"is not shown before two minutes": {job: reports(600, 0, notify), seen: leaderReads(unreadable(119 * time.Second))},
		"is not shown before the job has run for two minutes": {
			job: started(notify, time.Minute), seen: leaderReads(view.Reading{Problem: "connection refused"}),
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

// The last report of the earlier attempt can be from the second in which the job began to run again.
func TestATrainingThatReportsNothingIsStalledAlthoughTheAttemptBeforeReported(t *testing.T) {
	t.Parallel()
	run := []*corev1.Pod{pod("job-worker-0", running)}
	for name, tc := range map[string]struct {
		reported time.Duration // the time of the report, counted from the beginning of the run
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
			seen.Readings = map[types.UID]view.Reading{run[0].UID: {Time: now}}
			d := j.DecideAt(now, seen)
			if got := meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionStalled); got != tc.want {
				t.Errorf("the condition Stalled is %t, want %t", got, tc.want)
			}
		})
	}
}

// If the sidecar of a running job was restarted, or the pod that reported was replaced, the new sidecar knows nothing
// about the time before.
func TestStallOfATrainingThatReportedToAnotherSidecar(t *testing.T) {
	t.Parallel()
	const message = "no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after 42% (420/1000)"
	reported := func(limit int64) *jobBuilder {
		return reports(limit, 300, notify).SawIn(leaderReads(readBefore(step(420, time.Minute), 30*time.Minute)))
	}
	since := func(start time.Duration) view.Observation {
		return leaderReads(view.Reading{Time: now, Silence: start})
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
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
