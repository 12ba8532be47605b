package plan_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// A stall is over when the training stops for another reason, such as a pause.
func TestStallEndsWithTheTraining(t *testing.T) {
	t.Parallel()
	silent := step(420, 11*time.Minute)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
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

// A job with the policy Notify has reported nothing and is stalled. A change of its deadline ends the stall.
func TestAMissingReportIsNotAStallAfterTheDeadlineWasChanged(t *testing.T) {
	t.Parallel()
	silent := leaderReads(view.Reading{Time: now, Silence: time.Hour})
	for name, tc := range map[string]struct {
		seconds int64
		read    time.Duration // how long before now the progress was last read
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
			seen := leaderReads(view.Reading{Time: now.Add(-tc.read), Silence: time.Hour})
			diff(t, "Stalled", tc.want, stallOf(j.Reporting(0, tc.seconds, notify).DecideAt(now, seen)).Stalled)
		})
	}
}

// After a restart of the controller, nothing has been read yet. The status records a report from the second in which
// the job began to run. Because this report might be from the earlier attempt, it does not show that the deadline for
// the start is met.
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
