package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/report"
)

// A write can be delayed if the status changes only because replicas change. Other changes are written immediately.
func TestOnlyFollowsReplicas(t *testing.T) {
	t.Parallel()
	status := func(change func(*batchv1beta1.JobStatus)) batchv1beta1.JobStatus {
		s := batchv1beta1.JobStatus{
			Phase: batchv1beta1.JobPhasePending,
			Tasks: []batchv1beta1.TaskStatus{
				{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{{Name: "job-worker-0"}}},
			},
			Conditions: []metav1.Condition{{Type: "Running", Status: "False", Reason: "Pending", Message: "2 of 2"}},
		}
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		change func(*batchv1beta1.JobStatus)
		want   bool
	}{
		"the node of a replica can be batched": {
			func(s *batchv1beta1.JobStatus) { s.Tasks[0].Replicas[0].Node = "node-1" }, true,
		},
		"another type is written immediately": {
			func(s *batchv1beta1.JobStatus) { s.Tasks[0].Type = "master" }, false,
		},
		"another replica is written immediately": {
			func(s *batchv1beta1.JobStatus) { s.Tasks[0].Replicas[0].Name = "job-worker-1" }, false,
		},
		"aggregate can be batched": {
			func(s *batchv1beta1.JobStatus) { s.Aggregate = &batchv1beta1.Aggregate{Running: 1} }, true,
		},
		"defaults can be batched": {
			func(s *batchv1beta1.JobStatus) { s.Defaults = &batchv1beta1.PolicyDefaults{RestartScope: "Job"} }, true,
		},
		"ready can be batched":                            {func(s *batchv1beta1.JobStatus) { s.Ready = "1/2" }, true},
		"the number of replicas with pods can be batched": {func(s *batchv1beta1.JobStatus) { s.Replicas = 1 }, true},
		"the message of a condition can be batched": {
			func(s *batchv1beta1.JobStatus) { s.Conditions[0].Message = "1 of 2" }, true,
		},
		"a change between Pending and Creating can be batched": {
			func(s *batchv1beta1.JobStatus) { s.Conditions[0].Reason = "Creating" }, true,
		},
		"another reason of a condition is written immediately": {
			func(s *batchv1beta1.JobStatus) { s.Conditions[0].Reason = "ImagePull" }, false,
		},
		"the status of a condition is written immediately": {
			func(s *batchv1beta1.JobStatus) { s.Conditions[0].Status = "True" }, false,
		},
		"phase is written immediately": {
			func(s *batchv1beta1.JobStatus) { s.Phase = batchv1beta1.JobPhaseRunning }, false,
		},
		"reason is written immediately":       {func(s *batchv1beta1.JobStatus) { s.Reason = "ImagePull" }, false},
		"backoffCount is written immediately": {func(s *batchv1beta1.JobStatus) { s.BackoffCount = 1 }, false},
		"disruptions are written immediately": {func(s *batchv1beta1.JobStatus) { s.Disruptions = 1 }, false},
		"pauses is written immediately":       {func(s *batchv1beta1.JobStatus) { s.Pauses = 1 }, false},
		"attempt is written immediately":      {func(s *batchv1beta1.JobStatus) { s.Attempt = 1 }, false},
		"a failure is written immediately": {
			func(s *batchv1beta1.JobStatus) { s.Failures = []batchv1beta1.ReplicaFailure{{}} }, false,
		},
		"observedGeneration is written immediately": {func(s *batchv1beta1.JobStatus) { s.ObservedGeneration = 2 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := status(func(*batchv1beta1.JobStatus) {}), status(tc.change)
			want := after.DeepCopy()
			diff(t, "OnlyFollowsReplicas", tc.want, plan.OnlyFollowsReplicas(before, after))
			diff(t, "status, which must not be changed", *want, after)
		})
	}
}

// The first status write of most jobs can be delayed until it reports that the job runs.
func TestIsDelayableFirstStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen []*corev1.Pod
		want bool
	}{
		"the write is delayed while pods are missing": {job: job(role("worker", 2)), want: true},
		"the write is delayed while pods start": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", running)}, want: true,
		},
		"the write is not delayed once all replicas run": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)},
		},
		"the write is not delayed if a replica cannot start": {
			job: job(role("worker", 1)), seen: []*corev1.Pod{pod("job-worker-0", unschedulable)},
		},
		"the write is not delayed if a replica failed": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
		"the write is not delayed if a deadline counts from it": {job: job(role("worker", 2)).Deadline(60)},
		"the write is not delayed if a failure waits for failures of the peers": {
			job:  job(role("worker", 2)).Scope(scopeJob).Window(2 * time.Second),
			seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
		"the write is not delayed if the job is a gang":           {job: job(role("worker", 2)).InQueue()},
		"the write is not delayed if the job has no replicas":     {job: job(role("worker", 0))},
		"the write is not delayed if the job is elastic":          {job: job(role("worker", 2)).Elastic(1, 2)},
		"the write is not delayed if the job is created paused":   {job: job(role("worker", 2)).Paused(true)},
		"the write is not delayed if a status was written before": {job: job(role("worker", 2)).Saw(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "whether the write can be delayed", tc.want,
				plan.IsDelayableFirstStatus(tc.job.Spec, tc.job.Status, tc.job.Sees(tc.seen...)))
		})
	}
}

// If a pod is deleted before its success is written, the success is lost. So the write waits only a short time for
// the ends of the peers.
func TestStatusDelay(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Second
	run := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		saw, sees []*corev1.Pod
		want      time.Duration
	}{
		"the start of a replica is delayed for the interval": {
			sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1")}, want: interval,
		},
		"the node of a replica is delayed for the interval": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, onNode("a"))},
			want: interval,
		},
		"the end of a replica is delayed for a second": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))}, want: time.Second,
		},
		"the end of a replica before all replicas ran is delayed for a second": {
			sees: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", exited(0))}, want: time.Second,
		},
		"the start of the last replica is written immediately": {sees: run},
		"the success of the job is written immediately": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", running)},
		},
		"a restart is written immediately": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2))
			if tc.saw != nil {
				j.Saw(time.Minute, tc.saw...)
			}
			diff(t, "delay", tc.want, plan.StatusDelay(j.Job, j.Sees(tc.sees...), interval))
		})
	}
}

// A first status is written immediately if it has an event or another phase than Pending.
func TestFirstStatusWithAnEventOrAnotherPhaseIsNotDelayed(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2))
	first := func() plan.Decision { return j.Sees() }
	diff(t, "whether the first status can be delayed", true, plan.IsDelayableFirstStatus(j.Spec, j.Status, first()))
	withEvent := first()
	withEvent.Events = []report.Event{{Reason: "NoEffect"}}
	diff(t, "whether it can be delayed with an event", false, plan.IsDelayableFirstStatus(j.Spec, j.Status, withEvent))
	resuming := first()
	resuming.Status.Phase = batchv1beta1.JobPhaseResuming
	diff(t, "whether it can be delayed in another phase", false, plan.IsDelayableFirstStatus(j.Spec, j.Status, resuming))
}

func TestStatusOfARestartIsNeverDelayed(t *testing.T) {
	t.Parallel()
	j := ran()
	d := decided(j.Status)
	d.Restarts = []decide.Restart{{Cause: "Error"}}
	diff(t, "delay", time.Duration(0), plan.StatusDelay(j.Job, d, time.Minute))
}

// The write of a replica's end is urgent only while the job might restart the replica.
func TestEndOfAReplicaOfAFinishedJobIsDelayedLikeOtherChanges(t *testing.T) {
	t.Parallel()
	j := finishedKeeping(batchv1beta1.CleanUpPolicyNone)
	later := *j.Status.DeepCopy()
	later.Tasks[0].Replicas[1].Phase = batchv1beta1.ReplicaPhaseFailed
	diff(t, "delay", time.Minute, plan.StatusDelay(j.Job, decided(later), time.Minute))
}

func TestChangesStatus(t *testing.T) {
	t.Parallel()
	j := ran()
	same := decided(*j.Status.DeepCopy())
	diff(t, "whether the same status is a change", false, plan.ChangesStatus(j.Job, same))
	other := *j.Status.DeepCopy()
	other.BackoffCount++
	diff(t, "whether another count is a change", true, plan.ChangesStatus(j.Job, decided(other)))
	other = *j.Status.DeepCopy()
	other.Tasks[0].Replicas[0].Node = "another"
	diff(t, "whether another node is a change", true, plan.ChangesStatus(j.Job, decided(other)))
}
