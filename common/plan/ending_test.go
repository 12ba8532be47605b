package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

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
		"the leader succeeds": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", exited(0))},
		},
		"the leader succeeds while a peer runs": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", running)},
		},
		"the leader succeeds although a peer failed": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", exited(1))},
		},
		"the leader succeeds although its sidecar still runs": {
			job: started(), pods: []*corev1.Pod{pod("job-master-0", exited(0), sidecarRunning), pod("job-worker-0", running)},
		},
		"the leader succeeds although the deadline has just passed": {
			job: started().Deadline(60), pods: []*corev1.Pod{pod("job-master-0", exited(0)), pod("job-worker-0", running)},
		},
		"the leader succeeds although its restart policy is Always": {
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

func TestJobContinues(t *testing.T) {
	t.Parallel()
	const never = batchv1beta1.RestartPolicyNever
	running2 := []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"a peer succeeds": {
			job:  job(role("master", 1), role("worker", 1)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(0))},
		},
		"the leader exits with 0 while its pod is being deleted": {
			job:  job(role("master", 1), role("worker", 1)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", exited(0), deleting), pod("job-worker-0", running)},
		},
		"a leader pod of an earlier attempt exits with 0": {
			job: job(role("master", 1), role("worker", 1)).Saw(time.Minute, running2...).
				Saw(0, running2[0], pod("job-worker-0", exited(1))),
			pods: []*corev1.Pod{pod("job-master-0", exited(0))},
		},
		"a peer fails permanently and only the leader decides": {
			job:  job(role("master", 1), restarting(role("worker", 1), never)).Scope(scopeReplica).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", exited(1))},
		},
		"somebody deletes a pod with restart policy Never": {
			job:  job(restarting(role("master", 1), never), restarting(role("worker", 1), never)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", running, deleting), pod("job-worker-0", running)},
		},
		"the leader is disrupted and no counted restart is left": {
			job:  job(role("master", 1), role("worker", 1)).BackoffLimit(0).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-master-0", exited(143), disrupted), pod("job-worker-0", exited(1))},
		},
		"the deadline passes in a second": {
			job:  job(role("master", 1), role("worker", 1)).Deadline(61).Saw(time.Minute, running2...),
			pods: running2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := tc.job.Sees(tc.pods...); d.Status.Decided() {
				t.Errorf("the end of the job is decided with reason %s, want none", d.Status.Reason)
			}
		})
	}
}

// Running and ReplicaFailure change as soon as the end is decided, although pods of the job might still run.
func TestConditionsChangeWhenTheEndIsDecided(t *testing.T) {
	t.Parallel()
	const succeeded = "leader job-worker-0 succeeded"
	leader, peer := pod("job-worker-0", exited(0)), pod("job-worker-1", running)
	replacing := ran().Scope(scopeReplica).Saw(time.Second, pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	stayedFailed := ran().Scope(scopeReplica).BackoffLimit(0).
		Saw(time.Second, pod("job-worker-0", running), pod("job-worker-1", exited(1), sidecarRunning))
	for name, tc := range map[string]struct {
		job         *jobBuilder
		pods        []*corev1.Pod
		wantRunning string
		// wantReplicaFailure is zero if the job has no such condition.
		wantReplicaFailure condition
	}{
		"a job succeeds without any failure": {
			job: ran(), pods: []*corev1.Pod{leader, peer}, wantRunning: succeeded,
		},
		"a job succeeds while a replica is being restarted": {
			job: replacing, pods: []*corev1.Pod{leader, pod("job-worker-1", againAlone(1))}, wantRunning: succeeded,
			wantReplicaFailure: condition{metav1.ConditionFalse, batchv1beta1.ReasonLeaderSucceeded, succeeded},
		},
		"a job succeeds although a replica stays failed": {
			job: stayedFailed, pods: []*corev1.Pod{leader, pod("job-worker-1", exited(1), sidecarRunning)},
			wantRunning: succeeded,
			wantReplicaFailure: condition{
				metav1.ConditionTrue, batchv1beta1.ReasonError, "replica job-worker-1 failed with exit code 1 (Error)",
			},
		},
		"a job fails because of a replica": {
			job: ran().BackoffLimit(0), pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			wantRunning: "replica job-worker-1 failed with exit code 1 (Error) " +
				"and runPolicy.backoffLimit (0) allows no further restart",
			wantReplicaFailure: condition{
				metav1.ConditionTrue, batchv1beta1.ReasonError, "replica job-worker-1 failed with exit code 1 (Error)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "whether the job has finished", false, d.Status.Finished())
			diff(t, "Running", condition{metav1.ConditionFalse, batchv1beta1.ReasonFinishing, tc.wantRunning},
				conditionOf(d, batchv1beta1.ConditionRunning))
			diff(t, "ReplicaFailure", tc.wantReplicaFailure, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
		})
	}
}

func TestJobIsRequeuedForItsDeadline(t *testing.T) {
	t.Parallel()
	start := now.Add(-time.Minute)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want time.Duration
	}{
		"a job without a deadline is not requeued": {job: job(role("worker", 1)).Saw(time.Minute)},
		"the deadline counts from the start of the job": {
			job: job(role("worker", 1)).Deadline(90).Saw(time.Minute), want: 30 * time.Second,
		},
		"the deadline can be set later": {
			job: job(role("worker", 1)).Saw(time.Minute).Deadline(61), want: time.Second,
		},
		"the deadline can be extended": {
			job: job(role("worker", 1)).Deadline(1).Saw(time.Minute).Deadline(3660), want: time.Hour,
		},
		"the deadline of a new job counts from now": {job: job(role("worker", 1)).Deadline(90), want: 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(pod("job-worker-0", running))
			diff(t, "time until the requeue", tc.want, summarize(d).RequeueIn)
			if tc.job.Status.StartTime != nil {
				diff(t, "startTime", start, d.Status.StartTime.UTC())
			}
		})
	}
}

// In this test, a sidecar keeps the pod of an ended replica running. Somebody deletes the pod while no controller
// runs.
func TestEndBeforeTheDeletionOfThePodCounts(t *testing.T) {
	t.Parallel()
	peer := pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		leader podOption
		want   string
		counts int32
	}{
		"the leader succeeded 30 seconds before the deletion": {
			exitedAgo(0, 30*time.Second), batchv1beta1.ReasonLeaderSucceeded, 0,
		},
		"the leader failed 30 seconds before the deletion": {
			exitedAgo(1, 30*time.Second), batchv1beta1.ReasonRestarting, 1,
		},
		"the leader ended because of the deletion, with its work unfinished": {
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

func TestTheConditionOfTheEndHasTheGenerationOfTheSpec(t *testing.T) {
	t.Parallel()
	j := ran()
	j.Generation = 3
	d := j.Sees(pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	diff(t, "observedGeneration", int64(3),
		meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionSuccessCriteriaMet).ObservedGeneration)
}
