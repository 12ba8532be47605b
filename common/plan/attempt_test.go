package plan_test

import (
	"testing"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
)

// The job controller writes the status before it creates the pods of an attempt. If a pod has a later attempt than
// the status, the controller has not created this pod. Such a pod is replaced, whatever its state.
func TestPodOfAnUnknownAttemptIsReplaced(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute).
		Sees(pod("job-worker-0", running), pod("job-worker-1", again(3), exited(1)))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Deletes: []string{"job-worker-1"},
	}, summarize(d))
}

// If the only running pod has a later attempt than the status, the job restarts without waiting for failures of this
// pod.
func TestPodOfAnUnknownAttemptIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	d := ran().Window(time.Minute).Sees(pod("job-worker-0", running, again(3)), pod("job-worker-1", exited(1)))
	diff(t, "attempt of the job", int32(1), d.Status.Attempt)
}

// If somebody changes the attempt label of a running pod and then deletes the pod, the deletion counts neither as a
// restart nor as a failure.
func TestDeletionOfAPodOfAnUnknownAttemptIsNotARestart(t *testing.T) {
	t.Parallel()
	d := ran().Scope(scopeReplica).Sees(pod("job-worker-0", running), pod("job-worker-1", running, again(3), deleting))
	diff(t, "restarts", []decide.Restart(nil), d.Restarts)
	diff(t, "failures", []string(nil), summarize(d).Failures)
}

// The restart scope can change while the job runs. Even then, no attempt is used twice, so that the end of a pod is
// never counted twice.
func TestScopeMayChangeBetweenRestarts(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Scope(scopeReplica).
		Saw(3*time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(2*time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, 2*time.Hour))).
		Scope(scopeJob).
		Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running, againAlone(1)))
	diff(t, "deletions", []string{"job-worker-0", "job-worker-1"},
		names(j.Sees(pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running, againAlone(1))).Deletes))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 2, Attempt: 1,
		Failures: []string{"job-worker-0: exit code 1, counted", "job-worker-1: exit code 1, counted"},
		Creates:  []string{created("job-worker-0", "1"), created("job-worker-1", "1")},
	}, summarize(j.Sees()))
}
