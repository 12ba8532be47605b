package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// condition of a decision, without what every condition has.
type condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func conditionOf(d plan.Decision, conditionType string) condition {
	c := ptr.Deref(meta.FindStatusCondition(d.Status.Conditions, conditionType), metav1.Condition{})
	return condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
}

func TestJobSucceeds(t *testing.T) {
	t.Parallel()
	started := func() *jobBuilder {
		return job(role("master", 1), role("worker", 1)).CleanUp(batchv1beta1.CleanUpPolicyNone).
			Saw(time.Minute, pod("job-master-0", running), pod("job-worker-0", running))
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"when the leader does": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", exited(0))},
		},
		"while a peer runs on": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", running)},
		},
		"although a peer failed": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", exited(1))},
		},
		"although a sidecar of the leader runs on": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0), sidecarRunning), pod("job-worker-0", running)},
		},
		"although its deadline has just passed": {
			job: started().Deadline(60), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", running)},
		},
		"although the policy of the leader is Always": {
			job: job(restarting(role("master", 1), batchv1beta1.RestartPolicyAlways), role("worker", 1)).
				CleanUp(batchv1beta1.CleanUpPolicyNone).Saw(time.Minute),
			pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", running)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "decision", summary{
				Phase: batchv1beta1.JobPhaseSucceeded, Reason: batchv1beta1.ReasonLeaderSucceeded,
			}, summarize(d))
			for _, c := range []string{batchv1beta1.ConditionSuccessCriteriaMet, batchv1beta1.ConditionCompleted} {
				diff(t, c, condition{metav1.ConditionTrue, batchv1beta1.ReasonLeaderSucceeded, "leader job-master-0 succeeded"},
					conditionOf(d, c))
			}
			diff(t, "Running", condition{metav1.ConditionFalse, batchv1beta1.ReasonFinished, "leader job-master-0 succeeded"},
				conditionOf(d, batchv1beta1.ConditionRunning))
			diff(t, "completionTime", new(metav1.NewTime(now)), d.Status.CompletionTime)
			diff(t, "events", []report.Event{{
				Type: corev1.EventTypeNormal, Reason: "Completed", Action: "Finish", Message: "leader job-master-0 succeeded",
			}}, d.Events)
		})
	}
}

func TestJobGoesOn(t *testing.T) {
	t.Parallel()
	const never = batchv1beta1.RestartPolicyNever
	running2 := []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"when a peer alone succeeds": {
			job:  job(role("master", 1), role("worker", 1)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(0))},
		},
		"when the leader ends well while it is being deleted": {
			job:  job(role("master", 1), role("worker", 1)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", exited(0), deleting), pod("job-worker-0", running)},
		},
		"when a peer fails for good, where the leader alone decides": {
			job:  job(role("master", 1), restarting(role("worker", 1), never)).Scope(scopeReplica).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(1))},
		},
		"when somebody deletes a pod whose policy is Never": {
			job:  job(restarting(role("master", 1), never), restarting(role("worker", 1), never)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", running, deleting), pod("job-worker-0", running)},
		},
		"when the leader is disrupted and no counted restart is left": {
			job:  job(role("master", 1), role("worker", 1)).BackoffLimit(0).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", exited(143), disrupted), pod("job-worker-0", exited(1))},
		},
		"a second before its deadline": {
			job:  job(role("master", 1), role("worker", 1)).Deadline(61).Saw(time.Minute, running2...),
			pods: running2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := tc.job.Sees(tc.pods...); d.Status.Decided() {
				t.Errorf("the job ended: %s", d.Status.Reason)
			}
		})
	}
}

func TestJobFails(t *testing.T) {
	t.Parallel()
	const (
		never    = batchv1beta1.RestartPolicyNever
		exitCode = batchv1beta1.RestartPolicyExitCode
	)
	running2 := []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", running)}
	for name, tc := range map[string]struct {
		job          *jobBuilder
		pods         []*corev1.Pod
		wantReason   string
		wantMessage  string
		wantBackoff  int32
		wantFailures []string
		// wantReplicaFailure is the message of that condition, if a replica is to blame.
		wantReplicaFailure string
	}{
		"on a permanent failure of the leader": {
			job:                job(restarting(role("master", 1), never), role("worker", 1)).Scope(scopeReplica).Saw(time.Minute, running2...),
			pods:               []*corev1.Pod{pod("job-master-0", exited(2)), pod("job-worker-0", running)},
			wantReason:         batchv1beta1.ReasonPermanentFailure,
			wantMessage:        "replica job-master-0 failed with exit code 2 (Error), which restart policy Never does not restart",
			wantFailures:       []string{"job-master-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"on a permanent failure of any replica, where it restarts as one": {
			job:                job(role("master", 1), restarting(role("worker", 1), exitCode)).Saw(time.Minute, running2...),
			pods:               []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(2))},
			wantReason:         batchv1beta1.ReasonPermanentFailure,
			wantMessage:        "replica job-worker-0 failed with exit code 2 (Error), which restart policy ExitCode does not restart",
			wantFailures:       []string{"job-worker-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-worker-0 failed with exit code 2 (Error)",
		},
		"on a failure when no counted restart is left": {
			job:                job(role("master", 1), role("worker", 1)).BackoffLimit(0).Saw(time.Minute, running2...),
			pods:               []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(2))},
			wantReason:         batchv1beta1.ReasonBackoffLimitExceeded,
			wantMessage:        "replica job-worker-0 failed with exit code 2 (Error) and runPolicy.backoffLimit (0) allows no further restart",
			wantFailures:       []string{"job-worker-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-worker-0 failed with exit code 2 (Error)",
		},
		"on the failure after the last counted restart, which is not added": {
			job: job(role("master", 1), role("worker", 1)).BackoffLimit(1).Saw(time.Hour, running2...).
				Saw(time.Hour, pod("job-master-0", exitedAgo(1, time.Hour)), pod("job-worker-0", running)),
			pods:               []*corev1.Pod{pod("job-master-0", exited(2), again(1)), pod("job-worker-0", running, again(1))},
			wantReason:         batchv1beta1.ReasonBackoffLimitExceeded,
			wantMessage:        "replica job-master-0 failed with exit code 2 (Error) and runPolicy.backoffLimit (1) allows no further restart",
			wantBackoff:        1,
			wantFailures:       []string{"job-master-0: exit code 2, counted", "job-master-0: exit code 1, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"on a failure of the leader when its peers used up the limit": {
			job: job(role("master", 1), role("worker", 1)).Scope(scopeReplica).BackoffLimit(1).Saw(time.Hour, running2...).
				Saw(time.Hour, pod("job-master-0", running), pod("job-worker-0", exitedAgo(1, time.Hour))),
			pods:               []*corev1.Pod{pod("job-master-0", exited(2)), pod("job-worker-0", running, again(1))},
			wantReason:         batchv1beta1.ReasonBackoffLimitExceeded,
			wantMessage:        "replica job-master-0 failed with exit code 2 (Error) and runPolicy.backoffLimit (1) allows no further restart",
			wantBackoff:        1,
			wantFailures:       []string{"job-master-0: exit code 2, counted", "job-worker-0: exit code 1, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"with the output of the replica that failed": {
			job:                job(restarting(role("master", 1), never), role("worker", 1)).Saw(time.Minute, running2...),
			pods:               []*corev1.Pod{pod("job-master-0", exited(2), printed("Traceback\nValueError: no data\n")), pod("job-worker-0", running)},
			wantReason:         batchv1beta1.ReasonPermanentFailure,
			wantMessage:        "replica job-master-0 failed with exit code 2 (Error), which restart policy Never does not restart; its last output:\nTraceback\nValueError: no data",
			wantFailures:       []string{"job-master-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"on a deadline, although every replica runs": {
			job:         job(role("master", 1), role("worker", 1)).Deadline(60).Saw(time.Minute, running2...),
			pods:        running2,
			wantReason:  batchv1beta1.ReasonDeadlineExceeded,
			wantMessage: "the job was active for longer than runPolicy.activeDeadlineSeconds (60 s)",
		},
		"on a deadline before any replica could be scheduled": {
			job:         job(role("master", 1), role("worker", 1)).Deadline(60).Saw(time.Hour),
			pods:        []*corev1.Pod{pod("job-master-0", unschedulable), pod("job-worker-0", unschedulable)},
			wantReason:  batchv1beta1.ReasonDeadlineExceeded,
			wantMessage: "the job was active for longer than runPolicy.activeDeadlineSeconds (60 s)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.CleanUp(batchv1beta1.CleanUpPolicyNone).Sees(tc.pods...)
			diff(t, "decision", summary{
				Phase: batchv1beta1.JobPhaseFailed, Reason: tc.wantReason, Backoff: tc.wantBackoff,
				Attempt: tc.job.Status.Attempt, Failures: tc.wantFailures,
			}, summarize(d))
			for _, c := range []string{batchv1beta1.ConditionFailureTarget, batchv1beta1.ConditionFailed} {
				diff(t, c, condition{metav1.ConditionTrue, tc.wantReason, tc.wantMessage}, conditionOf(d, c))
			}
			diff(t, "Running", condition{metav1.ConditionFalse, batchv1beta1.ReasonFinished, tc.wantMessage},
				conditionOf(d, batchv1beta1.ConditionRunning))
			diff(t, "ReplicaFailure", tc.wantReplicaFailure, conditionOf(d, batchv1beta1.ConditionReplicaFailure).Message)
			diff(t, "completionTime", new(metav1.NewTime(now)), d.Status.CompletionTime)
			diff(t, "events", []report.Event{{
				Type: corev1.EventTypeWarning, Reason: "Failed", Action: "Finish", Message: tc.wantMessage,
			}}, d.Events, withoutFacts)
		})
	}
}

// A policy of Never holds after a disruption too, whether the pod is seen failed or on its way out.
func TestJobOfNeverFailsOnADisruption(t *testing.T) {
	t.Parallel()
	const never = batchv1beta1.RestartPolicyNever
	for name, tc := range map[string]struct {
		scope batchv1beta1.RestartScope
		pods  []*corev1.Pod
	}{
		"of any replica, where it restarts as one": {
			scope: scopeJob,
			pods:  []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(143), disrupted)},
		},
		"of any replica, while its pod is being deleted": {
			scope: scopeJob,
			pods:  []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, disrupted, deleting)},
		},
		"of the leader, where that decides alone": {
			scope: scopeReplica,
			pods:  []*corev1.Pod{pod("job-worker-0", exited(143), disrupted), pod("job-worker-1", running)},
		},
		"of the leader, while its pod is being deleted": {
			scope: scopeReplica,
			pods:  []*corev1.Pod{pod("job-worker-0", running, disrupted, deleting), pod("job-worker-1", running)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := job(restarting(role("worker", 2), never)).Scope(tc.scope).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
				Sees(tc.pods...)
			diff(t, "reason of FailureTarget", batchv1beta1.ReasonPermanentFailure,
				conditionOf(d, batchv1beta1.ConditionFailureTarget).Reason)
			diff(t, "creations", []string(nil), names(podsToCreate(d)))
		})
	}
}

func TestDeadlineWakesTheJob(t *testing.T) {
	t.Parallel()
	start := now.Add(-time.Minute)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want time.Duration
	}{
		"no deadline, no wake-up":    {job: job(role("worker", 1)).Saw(time.Minute)},
		"it counts from the start":   {job: job(role("worker", 1)).Deadline(90).Saw(time.Minute), want: 30 * time.Second},
		"it may be set later":        {job: job(role("worker", 1)).Saw(time.Minute).Deadline(61), want: time.Second},
		"it may be put off":          {job: job(role("worker", 1)).Deadline(1).Saw(time.Minute).Deadline(3660), want: time.Hour},
		"a new job has it all ahead": {job: job(role("worker", 1)).Deadline(90), want: 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(pod("job-worker-0", running))
			diff(t, "wake-up", tc.want, summarize(d).WakeIn)
			if tc.job.Status.StartTime != nil {
				diff(t, "startTime", start, d.Status.StartTime.UTC())
			}
		})
	}
}

func TestCleanUp(t *testing.T) {
	t.Parallel()
	// Each job fails on its deadline, with one replica in every state that a pod can be left in.
	pods := []*corev1.Pod{
		pod("job-worker-0", running),
		pod("job-worker-1", unschedulable),
		pod("job-worker-2", exited(0)),
		pod("job-worker-3", exited(1)),
		pod("job-worker-4", exited(0), sidecarRunning),
		pod("job-worker-5", running, deleting),
	}
	ended := []*corev1.Pod{pods[2], pods[3]}
	for name, tc := range map[string]struct {
		policy      batchv1beta1.CleanUpPolicy
		wantDeletes []string
		// left are the pods that stay.
		left []*corev1.Pod
		// want is the aggregate when the clean-up is done.
		want batchv1beta1.Aggregate
	}{
		"Unfinished keeps what has ended, with its logs": {
			policy:      batchv1beta1.CleanUpPolicyUnfinished,
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-4"},
			left:        ended,
			want:        batchv1beta1.Aggregate{Succeeded: 2, Failed: 1, Deleted: 4},
		},
		"Unfinished is the default": {
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-4"},
			left:        ended,
			want:        batchv1beta1.Aggregate{Succeeded: 2, Failed: 1, Deleted: 4},
		},
		"All keeps nothing": {
			policy:      batchv1beta1.CleanUpPolicyAll,
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3", "job-worker-4"},
			want:        batchv1beta1.Aggregate{Deleted: 7},
		},
		"None keeps everything, as it was at the end while something runs": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left:   pods[:5],
			want:   batchv1beta1.Aggregate{Running: 1, Pending: 1, Succeeded: 2, Failed: 1, Deleted: 2},
		},
		"None keeps everything, and sees the training end while sidecars run on": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left: append(ended, pod("job-worker-0", exited(0), sidecarRunning), pod("job-worker-1", exited(1), sidecarRunning),
				pods[4]),
			want: batchv1beta1.Aggregate{Succeeded: 3, Failed: 2, Deleted: 2},
		},
		"None keeps everything, and sees it end": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left:   append(ended, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)), pod("job-worker-4", exited(0))),
			want:   batchv1beta1.Aggregate{Succeeded: 3, Failed: 2, Deleted: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The seventh replica never got a pod.
			j := job(restarting(role("worker", 7), batchv1beta1.RestartPolicyNever)).
				Scope(scopeReplica).Deadline(60).CleanUp(tc.policy).Saw(time.Minute)
			end := j.Sees(pods...)
			diff(t, "reason of FailureTarget", batchv1beta1.ReasonDeadlineExceeded,
				conditionOf(end, batchv1beta1.ConditionFailureTarget).Reason)
			diff(t, "deletions", tc.wantDeletes, names(end.CleanUps))

			j.Status = end.Status
			diff(t, "deletions of a second look", tc.wantDeletes, names(j.Sees(pods...).CleanUps))
			diff(t, "status of a second look", end.Status, j.Sees(pods...).Status)

			done := j.Sees(tc.left...)
			diff(t, "deletions at the end", []string(nil), names(done.CleanUps))
			diff(t, "final phase", batchv1beta1.JobPhaseFailed, done.Status.Phase)
			diff(t, "final aggregate", &tc.want, done.Status.Aggregate)

			j.Status = done.Status
			diff(t, "status of a last look", done.Status, j.Sees(tc.left...).Status)
		})
	}
}

// The peers of a leader that succeeded may be about to write their results.
func TestCleanUpLeavesPeersTimeAfterASuccess(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		pod("job-worker-0", exited(0), sidecarRunning),
		pod("job-worker-1", running),
		pod("job-worker-2", exited(0)),
		pod("job-worker-3", exited(0), sidecarRunning),
	}
	j := job(role("worker", 4)).GivePeers(30*time.Second).Saw(time.Hour, pods[1])
	d := j.Sees(pods...)
	diff(t, "SuccessCriteriaMet", metav1.ConditionTrue, conditionOf(d, batchv1beta1.ConditionSuccessCriteriaMet).Status)
	diff(t, "phase", batchv1beta1.JobPhasePending, d.Status.Phase)
	wantAtOnce := []string{"job-worker-0", "job-worker-3"}
	diff(t, "deletions at once: the training of these has ended", wantAtOnce, names(d.CleanUps))
	diff(t, "wake-up", 30*time.Second, summarize(d).WakeIn)

	j.Status = d.Status
	pods = pods[:3]
	late := plan.Decide(j.Job, seeing(pods[1:]...), now.Add(29*time.Second))
	diff(t, "deletions before the time", []string(nil), names(late.CleanUps))
	diff(t, "wake-up before the time", 30*time.Second, summarize(late).WakeIn)
	diff(t, "status before the time", d.Status, late.Status)

	late = plan.Decide(j.Job, seeing(pods[1:]...), now.Add(30*time.Second))
	diff(t, "deletions in time", []string{"job-worker-1"}, names(late.CleanUps))
	diff(t, "wake-up in time", time.Time{}, late.WakeAt)

	exitedMeanwhile := plan.Decide(j.Job, seeing(pod("job-worker-1", exited(0)), pods[2]), now.Add(10*time.Second))
	diff(t, "deletions once all ended", []string(nil), names(exitedMeanwhile.CleanUps))
	diff(t, "phase once all ended", batchv1beta1.JobPhaseSucceeded, exitedMeanwhile.Status.Phase)
	diff(t, "READY once all ended", "4/4", exitedMeanwhile.Status.Ready)
	diff(t, "aggregate once all ended", &batchv1beta1.Aggregate{Succeeded: 4}, exitedMeanwhile.Status.Aggregate)
}

// A sidecar keeps the pod of a replica that has ended, and somebody deletes the pod while no controller looks.
func TestWhatEndedBeforeItsPodWasDeletedCounts(t *testing.T) {
	t.Parallel()
	peer := pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		leader podOption
		want   string
		counts int32
	}{
		"the leader succeeded half a minute before": {
			exitedAgo(0, 30*time.Second), batchv1beta1.ReasonLeaderSucceeded, 0,
		},
		"the leader failed half a minute before": {
			exitedAgo(1, 30*time.Second), batchv1beta1.ReasonRestarting, 1,
		},
		"the leader ended as it was deleted, with its work unfinished": {
			exited(0), batchv1beta1.ReasonRestarting, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyOnFailure)).
				Saw(time.Hour, pod("job-worker-0", running), peer)
			d := j.Sees(pod("job-worker-0", tc.leader, sidecarRunning, deleting), peer)
			diff(t, "reason", tc.want, d.Status.Reason)
			diff(t, "counted restarts", tc.counts, d.Status.BackoffCount)
		})
	}
}

// A job is finished when nothing of it runs any more. Until then the status only records how it ends.
func TestJobFinishesWhenNothingOfItRuns(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	started := func() *jobBuilder { return job(role("worker", 2)).BackoffLimit(0).Saw(time.Hour, both...) }
	succeeded := started().Saw(time.Minute, pod("job-worker-0", exitedAgo(0, time.Minute)), both[1])
	failed := started().Saw(time.Minute, both[0], pod("job-worker-1", exitedAgo(1, time.Minute)))
	leader := pod("job-worker-0", exitedAgo(0, time.Minute))
	peer := func(options ...podOption) *corev1.Pod { return pod("job-worker-1", options...) }
	overdue := func(p *corev1.Pod) {
		deleting(p)
		p.DeletionTimestamp = new(metav1.NewTime(now.Add(-time.Second)))
	}
	for name, tc := range map[string]struct {
		job       *jobBuilder
		pods      []*corev1.Pod
		wantPhase batchv1beta1.JobPhase
		wantReady string
	}{
		"a job that succeeded waits for a peer that runs": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(running)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2",
		},
		"a job that succeeded waits for a peer whose sidecar runs": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(0), sidecarRunning)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2",
		},
		"a job that succeeded waits for a pod that is being deleted": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(running, deleting)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2",
		},
		"a job that succeeded waits for a pod that is being deleted and has ended, since it is gone in a moment": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(143), deleting)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2",
		},
		"a job that succeeded waits for a pod of no replica": {
			job: succeeded, pods: []*corev1.Pod{leader, pod("job-worker-7", running)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2",
		},
		"a job does not wait for a pod that has ended and that somebody else keeps past its grace period": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(143), overdue)},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job succeeds when its pods have ended": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(0))},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job succeeds when the pod of a peer is gone": {
			job: succeeded, pods: []*corev1.Pod{leader},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job succeeds although a peer fails meanwhile": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job that failed waits for a peer that runs": {
			job: failed, pods: []*corev1.Pod{pod("job-worker-0", running, deleting), peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "1/2",
		},
		"a job fails when its pods have ended": {
			job: failed, pods: []*corev1.Pod{peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseFailed, wantReady: "0/2",
		},
		"a job fails although its leader succeeds meanwhile": {
			job: failed, pods: []*corev1.Pod{leader, peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseFailed, wantReady: "1/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "phase", tc.wantPhase, d.Status.Phase)
			diff(t, "READY", tc.wantReady, d.Status.Ready)
			if d.Status.Finished() {
				diff(t, "completionTime", new(metav1.NewTime(now)), d.Status.CompletionTime)
				diff(t, "number of events", 1, len(d.Events))
				return
			}
			diff(t, "status of a job that waits", tc.job.Status, d.Status)
			diff(t, "events of a job that waits", []report.Event(nil), d.Events)
		})
	}
}

// From the decision on, nothing that happens to the job changes how it ends, and nothing is created.
func TestNothingChangesADecidedEnd(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	started := func() *jobBuilder { return job(role("worker", 2)).BackoffLimit(1).Saw(time.Hour, both...) }
	succeeded := func() *jobBuilder {
		return started().GivePeers(time.Hour).Saw(time.Minute, pod("job-worker-0", exitedAgo(0, time.Minute)), both[1])
	}
	failed := func() *jobBuilder {
		return started().Deadline(3600-60).Saw(time.Minute, both...)
	}
	elastic := job(role("worker", 2)).Elastic(1, 2).GivePeers(time.Hour).Saw(time.Hour, both...).
		Saw(time.Minute, pod("job-worker-0", exitedAgo(0, time.Minute)), both[1])
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want string
	}{
		"a success stays if the user pauses the job": {
			job: succeeded().Paused(true), pods: both, want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if the deadline passes": {
			job: succeeded().Deadline(1), pods: both, want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if the pod of the leader is gone": {
			job: succeeded(), pods: both[1:], want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if a peer fails": {
			job:  succeeded(),
			pods: []*corev1.Pod{pod("job-worker-1", exited(1), sidecarRunning)}, want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if the user scales the job": {
			job: elastic.Elastic(1, 4), pods: both[1:], want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a failure stays if the user removes the deadline": {
			job:  withoutDeadline(failed()),
			pods: []*corev1.Pod{pod("job-worker-0", running, deleting)}, want: batchv1beta1.ReasonDeadlineExceeded,
		},
		"a failure stays if the leader succeeds meanwhile": {
			job:  failed(),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), both[1]}, want: batchv1beta1.ReasonDeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "reason", tc.want, d.Status.Reason)
			diff(t, "status", tc.job.Status, d.Status)
			diff(t, "creations", []string(nil), names(podsToCreate(d)))
			diff(t, "deletions other than of the clean-up", []string(nil), names(d.Deletes))
		})
	}
}

func withoutDeadline(j *jobBuilder) *jobBuilder {
	j.Spec.RunPolicy.ActiveDeadlineSeconds = nil
	return j
}

// An earlier version of the controller finished a job while its pods still ran.
func TestJobThatAnEarlierVersionFinished(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exitedAgo(0, time.Minute)), pod("job-worker-1", running)
	j := job(role("worker", 2)).GivePeers(90*time.Second).Saw(time.Hour, pod("job-worker-0", running), peer).
		Saw(time.Minute, leader, peer)
	j.Status.Phase = batchv1beta1.JobPhaseSucceeded
	j.Status.CompletionTime = new(metav1.NewTime(now.Add(-time.Minute)))
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == batchv1beta1.ConditionSuccessCriteriaMet {
			c.Type = batchv1beta1.ConditionCompleted
		}
	}
	d := j.Sees(leader, peer)
	diff(t, "status", j.Status, d.Status)
	diff(t, "deletions within the grace of a success", []string(nil), names(d.CleanUps))
	diff(t, "wake-up", 30*time.Second, summarize(d).WakeIn)
	late := plan.Decide(j.Job, seeing(leader, peer), now.Add(30*time.Second))
	diff(t, "deletions after it", []string{"job-worker-1"}, names(late.CleanUps))
}

// A job that failed owes its replicas nothing.
func TestCleanUpLeavesPeersNoTimeAfterAFailure(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).BackoffLimit(0).GivePeers(30*time.Second).Saw(time.Hour).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	diff(t, "deletions", []string{"job-worker-0"}, names(d.CleanUps))
	diff(t, "wake-up", time.Duration(0), summarize(d).WakeIn)
}

// Whatever becomes of its pods or its spec, a finished job stays as it ended.
func TestFinishedJobIsFinal(t *testing.T) {
	t.Parallel()
	succeeded := func() *jobBuilder {
		return job(role("worker", 2)).Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
			Saw(time.Minute, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)))
	}
	failed := func() *jobBuilder {
		return job(role("worker", 2)).BackoffLimit(1).Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
			Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running)).
			Saw(time.Minute, pod("job-worker-0", exitedAgo(1, time.Minute), again(1)), pod("job-worker-1", exited(1), again(1)))
	}
	pausing := func(j *jobBuilder) *jobBuilder {
		j.Generation++
		return j.Paused(true)
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"when its pods are gone":              {job: succeeded()},
		"when it failed and its pods are":     {job: failed()},
		"when its limit is raised":            {job: failed().BackoffLimit(10), pods: []*corev1.Pod{pod("job-worker-0", exited(1), again(1))}},
		"when its deadline passes":            {job: succeeded().Deadline(1)},
		"when it is paused":                   {job: pausing(succeeded())},
		"when a pod fails on its way out":     {job: succeeded(), pods: []*corev1.Pod{pod("job-worker-1", exited(137), deleting)}},
		"when a pod that failed comes up yet": {job: failed(), pods: []*corev1.Pod{pod("job-worker-0", running, again(2))}},
		"when the leader succeeds after all":  {job: failed(), pods: []*corev1.Pod{pod("job-worker-0", exited(0), again(1))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tc.job.Job, plan.Observation{Pods: seeing(tc.pods...).Pods}, now)
			want := plan.WithoutReplicas(tc.job.Status)
			want.ObservedGeneration = tc.job.Generation // that a change of the spec was seen is no change of the end
			diff(t, "what is kept of the status", want, plan.WithoutReplicas(d.Status))
			diff(t, "conditions", tc.job.Status.Conditions, d.Status.Conditions)
			diff(t, "creations", []string(nil), names(podsToCreate(d)))
			diff(t, "events", []report.Event(nil), d.Events)
			if d.CreateService {
				t.Error("a finished job creates its Service")
			}
		})
	}
}

// Tasks keep how each replica ended after its pod is gone.
func TestTasksOfAFinishedJobOutliveItsPods(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", exited(0), onNode("node-1")), pod("job-worker-1", exited(3))}
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).Saw(time.Minute, pods...)
	diff(t, "phase", batchv1beta1.JobPhaseSucceeded, j.Status.Phase)
	want := []batchv1beta1.TaskStatus{{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{
		{
			Name: "job-worker-0", UID: "job-worker-0-uid-0", Phase: batchv1beta1.ReplicaPhaseSucceeded, Node: "node-1",
			Containers: []batchv1beta1.ContainerStatus{{
				Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](0), Reason: "Completed",
			}},
		},
		{
			Name: "job-worker-1", UID: "job-worker-1-uid-0", Phase: batchv1beta1.ReplicaPhaseFailed,
			Containers: []batchv1beta1.ContainerStatus{{
				Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](3), Reason: "Error",
			}},
		},
	}}}
	diff(t, "tasks with the pods", want, j.Sees(pods...).Status.Tasks)
	diff(t, "tasks without the pods", want, j.Sees().Status.Tasks)
}

// Once the job is gone nobody frees what a lost node holds, and the next job of the name would wait for it.
func TestTimeToLiveWaitsForThePodsOfLostNodes(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).TTL(1).LoseNodesAfter(time.Minute).
		CleanUp(batchv1beta1.CleanUpPolicyNone).
		Saw(time.Hour, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	lost := pod("job-worker-1", running, onLostNode, deleting)
	d := j.Sees(pod("job-worker-0", exited(0)), lost)
	diff(t, "deletion of the job", false, d.DeleteJob)
	diff(t, "wake-up, when the pod is deleted by force", 90*time.Second, summarize(d).WakeIn)
	diff(t, "deletion of the job once the pod is gone", true, j.Sees(pod("job-worker-0", exited(0))).DeleteJob)
}

func TestWithOutput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, output, want string }{
		"no output": {output: "", want: "failed"},
		"what the kubelet says goes first": {
			message: "too much storage", output: "a", want: "failed: too much storage; its last output:\na",
		},
		"what the kubelet says, alone": {message: "too much storage", want: "failed: too much storage"},
		"a short output is quoted":     {output: "a\nb", want: "failed; its last output:\na\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.WithOutput("failed", policy.Failure{Message: tc.message, Output: tc.output})
			diff(t, "message", tc.want, got)
		})
	}
}

// A finished job is deleted when its time is over, and wakes by itself for that.
func TestFinishedJobExpires(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl        *int32
		wantDelete bool
		wantWakeIn time.Duration
	}{
		"never, without a limit":  {},
		"not before its time":     {ttl: ptr.To[int32](90), wantWakeIn: 30 * time.Second},
		"when its time is over":   {ttl: ptr.To[int32](60), wantDelete: true},
		"long after":              {ttl: ptr.To[int32](1), wantDelete: true},
		"at once, if so is asked": {ttl: ptr.To[int32](0), wantDelete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", exited(0)))
			j.Spec.RunPolicy.TTLSecondsAfterFinished = tc.ttl
			d := j.Sees(pod("job-worker-0", exited(0)))
			diff(t, "deletion", tc.wantDelete, d.DeleteJob)
			diff(t, "wake", tc.wantWakeIn, summarize(d).WakeIn)
		})
	}
}
