package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

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
		// wantReplicaFailure is the message of the condition ReplicaFailure. It is empty if no failure of a replica ends
		// the job.
		wantReplicaFailure string
	}{
		"the leader fails permanently": {
			job: job(restarting(role("master", 1), never), role("worker", 1)).Scope(scopeReplica).
				Saw(time.Minute, running2...),
			pods:       []*corev1.Pod{pod("job-master-0", exited(2)), pod("job-worker-0", running)},
			wantReason: batchv1beta1.ReasonPermanentFailure,
			wantMessage: "replica job-master-0 failed with exit code 2 (Error), " +
				"which restart policy Never does not restart",
			wantFailures:       []string{"job-master-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"any replica of a job with scope Job fails permanently": {
			job:        job(role("master", 1), restarting(role("worker", 1), exitCode)).Saw(time.Minute, running2...),
			pods:       []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(2))},
			wantReason: batchv1beta1.ReasonPermanentFailure,
			wantMessage: "replica job-worker-0 failed with exit code 2 (Error), " +
				"which restart policy ExitCode does not restart",
			wantFailures:       []string{"job-worker-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-worker-0 failed with exit code 2 (Error)",
		},
		"a replica fails when no counted restart is left": {
			job:        job(role("master", 1), role("worker", 1)).BackoffLimit(0).Saw(time.Minute, running2...),
			pods:       []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(2))},
			wantReason: batchv1beta1.ReasonBackoffLimitExceeded,
			wantMessage: "replica job-worker-0 failed with exit code 2 (Error) " +
				"and runPolicy.backoffLimit (0) allows no further restart",
			wantFailures:       []string{"job-worker-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-worker-0 failed with exit code 2 (Error)",
		},
		"a replica fails after the last counted restart, and backoffCount stays": {
			job: job(role("master", 1), role("worker", 1)).BackoffLimit(1).Saw(time.Hour, running2...).
				Saw(time.Hour, pod("job-master-0", exitedAgo(1, time.Hour)), pod("job-worker-0", running)),
			pods:       []*corev1.Pod{pod("job-master-0", exited(2), again(1)), pod("job-worker-0", running, again(1))},
			wantReason: batchv1beta1.ReasonBackoffLimitExceeded,
			wantMessage: "replica job-master-0 failed with exit code 2 (Error) " +
				"and runPolicy.backoffLimit (1) allows no further restart",
			wantBackoff:        1,
			wantFailures:       []string{"job-master-0: exit code 2, counted", "job-master-0: exit code 1, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"the leader fails after the failures of its peers have reached backoffLimit": {
			job: job(role("master", 1), role("worker", 1)).Scope(scopeReplica).BackoffLimit(1).Saw(time.Hour, running2...).
				Saw(time.Hour, pod("job-master-0", running), pod("job-worker-0", exitedAgo(1, time.Hour))),
			pods:       []*corev1.Pod{pod("job-master-0", exited(2)), pod("job-worker-0", running, again(1))},
			wantReason: batchv1beta1.ReasonBackoffLimitExceeded,
			wantMessage: "replica job-master-0 failed with exit code 2 (Error) " +
				"and runPolicy.backoffLimit (1) allows no further restart",
			wantBackoff:        1,
			wantFailures:       []string{"job-master-0: exit code 2, counted", "job-worker-0: exit code 1, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"the message has the output of the failed replica": {
			job: job(restarting(role("master", 1), never), role("worker", 1)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{
				pod("job-master-0", exited(2), printed("Traceback\nValueError: no data\n")), pod("job-worker-0", running),
			},
			wantReason: batchv1beta1.ReasonPermanentFailure,
			wantMessage: "replica job-master-0 failed with exit code 2 (Error), " +
				"which restart policy Never does not restart; " +
				"its last output:\nTraceback\nValueError: no data",
			wantFailures:       []string{"job-master-0: exit code 2, counted"},
			wantReplicaFailure: "replica job-master-0 failed with exit code 2 (Error)",
		},
		"the deadline passes although every replica runs": {
			job:         job(role("master", 1), role("worker", 1)).Deadline(60).Saw(time.Minute, running2...),
			pods:        running2,
			wantReason:  batchv1beta1.ReasonDeadlineExceeded,
			wantMessage: "the job was active for longer than runPolicy.activeDeadlineSeconds (60 s)",
		},
		"the deadline passes before any replica is scheduled": {
			job: job(role("master", 1), role("worker", 1)).Deadline(60).Saw(time.Hour,
				pod("job-master-0", unschedulable), pod("job-worker-0", unschedulable)),
			pods:       []*corev1.Pod{pod("job-master-0", unschedulable), pod("job-worker-0", unschedulable)},
			wantReason: batchv1beta1.ReasonDeadlineExceeded,
			wantMessage: "the job was active for longer than runPolicy.activeDeadlineSeconds (60 s), " +
				"and did not run at the end: 2 of 2 replicas are not running yet: " +
				"job-master-0 cannot be scheduled: 0/3 nodes are available",
		},
		"the deadline passes before the status has any condition": {
			job: func() *jobBuilder {
				j := job(role("worker", 1)).Deadline(60).Saw(time.Hour)
				j.Status.Conditions = nil
				return j
			}(),
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

func TestJobFailsIfItsPodGroupExceedsItsMaxDuration(t *testing.T) {
	t.Parallel()
	const message = "the group was on nodes for 2h"
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	tooLong := withCondition("MaxDurationExceeded", metav1.ConditionTrue, "MaxDurationExceeded", message)
	j := job(role("worker", 2)).InQueue().Saw(time.Minute, worker0, worker1)
	d := plan.Decide(j.Job, grouped(group(2, admitted, tooLong), worker0, worker1), now)
	diff(t, "FailureTarget", condition{metav1.ConditionTrue, batchv1beta1.ReasonMaxDurationExceeded, message},
		conditionOf(d, batchv1beta1.ConditionFailureTarget))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonMaxDurationExceeded,
		Deletes: []string{"job-worker-0", "job-worker-1"}, RequeueIn: time.Minute, // the pods are overdue after this time
	}, summarize(d))
}

// Restart policy Never also applies to disruptions, whether the pod has failed or is being deleted.
func TestJobWithRestartPolicyNeverFailsOnADisruption(t *testing.T) {
	t.Parallel()
	const never = batchv1beta1.RestartPolicyNever
	for name, tc := range map[string]struct {
		scope batchv1beta1.RestartScope
		pods  []*corev1.Pod
	}{
		"with scope Job, a replica is disrupted": {
			scope: scopeJob,
			pods:  []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(143), disrupted)},
		},
		"with scope Job, a disrupted replica is being deleted": {
			scope: scopeJob,
			pods:  []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, disrupted, deleting)},
		},
		"with scope Replica, the leader is disrupted": {
			scope: scopeReplica,
			pods:  []*corev1.Pod{pod("job-worker-0", exited(143), disrupted), pod("job-worker-1", running)},
		},
		"with scope Replica, the disrupted leader is being deleted": {
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
