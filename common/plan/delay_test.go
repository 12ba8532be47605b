package plan_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// Tasks change with every step of every replica; everything else is worth a write at once.
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
		"a replica":             {func(s *batchv1beta1.JobStatus) { s.Tasks[0].Replicas[0].Node = "node-1" }, true},
		"which types there are": {func(s *batchv1beta1.JobStatus) { s.Tasks[0].Type = "master" }, false},
		"which replicas there are": {
			func(s *batchv1beta1.JobStatus) { s.Tasks[0].Replicas[0].Name = "job-worker-1" }, false,
		},
		"aggregate": {
			func(s *batchv1beta1.JobStatus) { s.Aggregate = &batchv1beta1.Aggregate{Running: 1} }, true,
		},
		"ready":                     {func(s *batchv1beta1.JobStatus) { s.Ready = "1/2" }, true},
		"replicas":                  {func(s *batchv1beta1.JobStatus) { s.Replicas = 1 }, true},
		"the text of a condition":   {func(s *batchv1beta1.JobStatus) { s.Conditions[0].Message = "1 of 2" }, true},
		"that they have pods":       {func(s *batchv1beta1.JobStatus) { s.Conditions[0].Reason = "Creating" }, true},
		"the reason of a condition": {func(s *batchv1beta1.JobStatus) { s.Conditions[0].Reason = "ImagePull" }, false},
		"the status of a condition": {func(s *batchv1beta1.JobStatus) { s.Conditions[0].Status = "True" }, false},
		"phase":                     {func(s *batchv1beta1.JobStatus) { s.Phase = batchv1beta1.JobPhaseRunning }, false},
		"reason":                    {func(s *batchv1beta1.JobStatus) { s.Reason = "ImagePull" }, false},
		"backoffCount":              {func(s *batchv1beta1.JobStatus) { s.BackoffCount = 1 }, false},
		"pauses":                    {func(s *batchv1beta1.JobStatus) { s.Pauses = 1 }, false},
		"attempt":                   {func(s *batchv1beta1.JobStatus) { s.Attempt = 1 }, false},
		"failures": {
			func(s *batchv1beta1.JobStatus) { s.Failures = []batchv1beta1.ReplicaFailure{{}} }, false,
		},
		"the generation that it is for": {func(s *batchv1beta1.JobStatus) { s.ObservedGeneration = 2 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := status(func(*batchv1beta1.JobStatus) {}), status(tc.change)
			want := after.DeepCopy()
			diff(t, "answer", tc.want, plan.OnlyFollowsReplicas(before, after))
			diff(t, "the status, which is only read", *want, after)
		})
	}
}

// What a status says of a replica is compared field by field: none may be left out.
func TestIsSameStatusLooksAtEachField(t *testing.T) {
	t.Parallel()
	full := func() batchv1beta1.JobStatus {
		return batchv1beta1.JobStatus{
			Tasks: []batchv1beta1.TaskStatus{{Type: "worker", RestartCount: 1, Replicas: []batchv1beta1.ReplicaStatus{{
				Name: "job-worker-0", UID: "uid", Phase: batchv1beta1.ReplicaPhaseFailed, Node: "node", Attempt: 1,
				RestartTime: new(ago(time.Minute)),
				Containers: []batchv1beta1.ContainerStatus{{
					Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: new(int32(1)), Reason: "Error",
				}},
			}}}},
		}
	}
	diff(t, "answer for the same", true, plan.IsSameStatus(full(), full()))
	for name, part := range map[string]func(*batchv1beta1.JobStatus) any{
		"task":      func(s *batchv1beta1.JobStatus) any { return &s.Tasks[0] },
		"replica":   func(s *batchv1beta1.JobStatus) any { return &s.Tasks[0].Replicas[0] },
		"container": func(s *batchv1beta1.JobStatus) any { return &s.Tasks[0].Replicas[0].Containers[0] },
	} {
		fields := reflect.TypeOf(part(new(full()))).Elem()
		for i := range fields.NumField() {
			t.Run(name+" without "+fields.Field(i).Name, func(t *testing.T) {
				t.Parallel()
				lacking := full()
				field := reflect.ValueOf(part(&lacking)).Elem().Field(i)
				if field.IsZero() {
					t.Fatal("the test sets no such field")
				}
				field.SetZero()
				diff(t, "answer", false, plan.IsSameStatus(full(), lacking))
			})
		}
	}
}

// Whether a list that is empty is there makes no difference, nor the zone of a time.
func TestIsSameStatusIsSemantic(t *testing.T) {
	t.Parallel()
	status := func(r batchv1beta1.ReplicaStatus) batchv1beta1.JobStatus {
		return batchv1beta1.JobStatus{
			Tasks: []batchv1beta1.TaskStatus{{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{r}}},
		}
	}
	local := metav1.NewTime(now.In(time.FixedZone("east", 3600)))
	a := status(batchv1beta1.ReplicaStatus{RestartTime: &local})
	b := status(batchv1beta1.ReplicaStatus{
		RestartTime: new(metav1.NewTime(now)), Containers: []batchv1beta1.ContainerStatus{},
	})
	diff(t, "answer", true, plan.IsSameStatus(a, b))
}

// The first status of most jobs says that they run.
func TestFirstStatusMayWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen []*corev1.Pod
		want bool
	}{
		"while its pods are to be created": {job: job(role("worker", 2)), want: true},
		"while its pods start": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", running)}, want: true,
		},
		"not once they run": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)},
		},
		"not when one cannot start": {
			job: job(role("worker", 1)), seen: []*corev1.Pod{pod("job-worker-0", unschedulable)},
		},
		"not when one failed": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
		"not with a deadline, which counts from it": {job: job(role("worker", 2)).Deadline(60)},
		"not when one failed and the reports of its peers are awaited": {
			job:  job(role("worker", 2)).Scope(scopeJob).Window(2 * time.Second),
			seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
		"not of a gang, which its PodGroup follows":  {job: job(role("worker", 2)).InQueue()},
		"not when nothing can run":                   {job: job(role("worker", 0))},
		"not of an elastic job, which is scaled":     {job: job(role("worker", 2)).Elastic(1, 2)},
		"not of a job that is paused from the start": {job: job(role("worker", 2)).Paused(true)},
		"not after another":                          {job: job(role("worker", 2)).Saw(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "whether it may wait", tc.want,
				plan.IsFirstStatusThatMayWait(tc.job.Spec, tc.job.Status, tc.job.Sees(tc.seen...)))
		})
	}
}

// A success that is not written is lost with its pod: it waits for its peers, but not for long.
func TestStatusWaits(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Second
	run := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		saw, sees []*corev1.Pod
		want      time.Duration
	}{
		"for the replicas to run": {
			sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1")}, want: interval,
		},
		"for a node to be named": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, onNode("a"))},
			want: interval,
		},
		"less when a replica has ended": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))}, want: time.Second,
		},
		"less when one has before all run": {
			sees: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", exited(0))}, want: time.Second,
		},
		"not when all run": {sees: run},
		"not when the job has succeeded": {
			saw: run, sees: []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", running)},
		},
		"not when a replica has to restart": {
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

// A status that would wait is written at once with something else that must not wait.
func TestFirstStatusMayNotWaitWithAnEventOrInAnotherPhase(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2))
	first := func() plan.Decision { return j.Sees() }
	diff(t, "whether the first status may wait", true, plan.IsFirstStatusThatMayWait(j.Spec, j.Status, first()))
	withEvent := first()
	withEvent.Events = []report.Event{{Reason: "NoEffect"}}
	diff(t, "whether it may wait with an event", false, plan.IsFirstStatusThatMayWait(j.Spec, j.Status, withEvent))
	resuming := first()
	resuming.Status.Phase = batchv1beta1.JobPhaseResuming
	diff(t, "whether it may wait in another phase", false, plan.IsFirstStatusThatMayWait(j.Spec, j.Status, resuming))
}

func TestStatusOfARestartNeverWaits(t *testing.T) {
	t.Parallel()
	j := ran()
	d := plan.Decision{Status: j.Status, Restarts: []plan.Restart{{Cause: "Error"}}}
	diff(t, "delay", time.Duration(0), plan.StatusDelay(j.Job, d, time.Minute))
}

// The end of a replica matters while the job may restart it.
func TestEndOfAReplicaOfAFinishedJobWaitsAsOtherChangesDo(t *testing.T) {
	t.Parallel()
	j := finishedKeeping(batchv1beta1.CleanUpPolicyNone)
	later := *j.Status.DeepCopy()
	later.Tasks[0].Replicas[1].Phase = batchv1beta1.ReplicaPhaseFailed
	diff(t, "delay", time.Minute, plan.StatusDelay(j.Job, plan.Decision{Status: later}, time.Minute))
}

func TestChangesStatus(t *testing.T) {
	t.Parallel()
	j := ran()
	same := plan.Decision{Status: *j.Status.DeepCopy()}
	diff(t, "whether the same status is a change", false, plan.ChangesStatus(j.Job, same))
	other := *j.Status.DeepCopy()
	other.BackoffCount++
	diff(t, "whether another count is a change", true, plan.ChangesStatus(j.Job, plan.Decision{Status: other}))
	other = *j.Status.DeepCopy()
	other.Tasks[0].Replicas[0].Node = "another"
	diff(t, "whether another node is a change", true, plan.ChangesStatus(j.Job, plan.Decision{Status: other}))
}
