package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// The failure of a replica that stayed failed becomes the root cause when the user edits the restart scope. The
// failure is recorded only once.
func TestFailureIsRecordedOnceWhenTheScopeIsEdited(t *testing.T) {
	t.Parallel()
	leader, failed := pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))
	both := []*corev1.Pod{leader, pod("job-worker-1", running)}
	never := restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)
	for name, tc := range map[string]struct {
		job    *jobBuilder
		edit   func(*jobBuilder)
		pods   []*corev1.Pod
		reason string
	}{
		"the failure ends the job": {
			job:  job(never),
			edit: func(j *jobBuilder) { j.Scope(scopeJob) }, pods: []*corev1.Pod{leader, failed},
			reason: batchv1beta1.ReasonPermanentFailure,
		},
		"the failure ends the job, although its pod is gone": {
			job:  job(never),
			edit: func(j *jobBuilder) { j.Scope(scopeJob) }, pods: []*corev1.Pod{leader},
			reason: batchv1beta1.ReasonPermanentFailure,
		},
		"the failure restarts the job": {
			job:  job(role("worker", 2)).BackoffLimit(0),
			edit: func(j *jobBuilder) { j.Scope(scopeJob).BackoffLimit(1) }, pods: []*corev1.Pod{leader, failed},
			reason: batchv1beta1.ReasonRestarting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job.Scope(scopeReplica).Saw(2*time.Minute, both...).Saw(time.Minute, leader, failed)
			tc.edit(j)
			d := j.Sees(tc.pods...)
			diff(t, "reason", tc.reason, d.Status.Reason)
			diff(t, "failures", []string{"job-worker-1: exit code 1, counted"}, summarize(d).Failures)
		})
	}
}

// Only the last failures are kept, so the failure of a replica that stayed failed can be missing from the status. If
// such a failure restarts the job later, it is recorded again.
func TestFailureIsRecordedAgainIfItIsMissing(t *testing.T) {
	t.Parallel()
	leader, failed := pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))
	for name, change := range map[string]func(*batchv1beta1.ReplicaFailure){
		"the recorded failure is of another replica": func(f *batchv1beta1.ReplicaFailure) { f.Replica = "job-worker-2" },
		"the recorded failure has another exit code": func(f *batchv1beta1.ReplicaFailure) { f.ExitCode = new(int32(7)) },
		"the recorded failure is an earlier one":     func(f *batchv1beta1.ReplicaFailure) { f.Time = ago(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).
				Saw(2*time.Minute, leader, pod("job-worker-1", running)).Saw(time.Minute, leader, failed)
			change(&j.Status.Failures[0])
			d := j.Scope(scopeJob).Sees(leader, failed)
			diff(t, "number of failures", 2, len(d.Status.Failures))
			diff(t, "newest failure", "job-worker-1: exit code 1, counted", summarize(d).Failures[0])
		})
	}
}

// A replica can fail in the same way in two attempts. These are two failures.
func TestFailureOfTheNextAttemptIsRecorded(t *testing.T) {
	t.Parallel()
	first := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	second := []*corev1.Pod{pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running)}
	j := job(role("worker", 2)).
		Saw(3*time.Minute, first...).
		Saw(2*time.Minute, first[0], pod("job-worker-1", exitedAgo(1, 2*time.Minute))).
		Saw(time.Minute, second...)
	diff(t, "failures", []string{"job-worker-1: exit code 1, counted", "job-worker-1: exit code 1, counted"},
		summarize(j.Sees(second[0], pod("job-worker-1", again(1), exited(1)))).Failures)
}

// The failure of a replica that stays failed is recorded when it is first seen. Its peers keep running.
func TestFailureThatIsNotRestartedIsRecordedOnce(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))}
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).
		Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(time.Minute, pods...)
	before := j.Status
	d := j.Sees(pods...)
	diff(t, "status after a second reconcile", before, d.Status)
	diff(t, "failures", []string{"job-worker-1: exit code 1, counted"}, summarize(d).Failures)
	diff(t, "events of a second reconcile", []report.Event(nil), d.Events)
}

func TestFailuresAreTheLastFiveNewestFirst(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).BackoffLimit(100)
	var want []batchv1beta1.ReplicaFailure
	for n := range int32(7) {
		failed := time.Duration(7-n) * time.Hour
		j.Saw(failed, pod("job-worker-0", again(n), onNode(fmt.Sprintf("node-%d", n)),
			exitedAgo(10+n, failed), printed(fmt.Sprintf("output %d", n))))
		if n >= 2 {
			want = append([]batchv1beta1.ReplicaFailure{{
				Replica: "job-worker-0", Node: fmt.Sprintf("node-%d", n), ExitCode: new(10 + n),
				Reason: batchv1beta1.ReasonError, Time: ago(failed), Counted: true, Message: fmt.Sprintf("output %d", n),
			}}, want...)
		}
	}
	diff(t, "failures", want, j.Status.Failures)
	diff(t, "backoffCount", int32(7), j.Status.BackoffCount)
}

func TestFailureOfADeletedPodHasTheTimeOfItsDeletion(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running)).
		Sees(pod("job-worker-0", running, onNode("node-1"), deleting))
	diff(t, "failures", []batchv1beta1.ReplicaFailure{{
		Replica: "job-worker-0", Node: "node-1", Reason: batchv1beta1.ReasonDeleted, Time: ago(0),
	}}, d.Status.Failures)
}

// A kubelet that rejects a pod can reject the next pod within the same second. These are two failures.
func TestFailuresOfTwoAttemptsInOneSecondAreTwo(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(0, pod("job-worker-0", rejected))
	diff(t, "failures", []string{"job-worker-0: no exit code, ignored", "job-worker-0: no exit code, ignored"},
		summarize(j.Sees(pod("job-worker-0", again(1), rejected))).Failures)
}
