package plan_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestFirstReconcileCreatesEverything(t *testing.T) {
	t.Parallel()
	d := plan.Decide(job(role("master", 1), role("worker", 2)).Job, view.Observation{}, now)

	diff(t, "decision", summary{
		Phase:  batchv1beta1.JobPhasePending,
		Reason: batchv1beta1.ReasonCreating,
		Creates: []string{
			created("job-master-0", "0"), created("job-worker-0", "0"), created("job-worker-1", "0"),
		},
	}, summarize(d))
	if !d.CreateService {
		t.Error("the missing Service is not created")
	}
	start := metav1.NewTime(now)
	creating := func(name string) batchv1beta1.ReplicaStatus {
		return batchv1beta1.ReplicaStatus{Name: name, Phase: batchv1beta1.ReplicaPhaseCreating}
	}
	diff(t, "status", batchv1beta1.JobStatus{
		Tasks: []batchv1beta1.TaskStatus{
			{Type: "master", Replicas: []batchv1beta1.ReplicaStatus{creating("job-master-0")}},
			{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{creating("job-worker-0"), creating("job-worker-1")}},
		},
		Aggregate: &batchv1beta1.Aggregate{Creating: 3},
		Defaults: &batchv1beta1.PolicyDefaults{
			RestartScope: batchv1beta1.DefaultScopeJob, ProgressPolicy: "Notify", BadNodePolicy: "Avoid",
		},
		Phase:              batchv1beta1.JobPhasePending,
		Reason:             batchv1beta1.ReasonCreating,
		StartTime:          &start,
		ObservedGeneration: 1,
		Selector:           "batch.tensorstack.dev/job-kind=TestJob,batch.tensorstack.dev/job-name=job",
		Ready:              "0/3",
		Conditions: []metav1.Condition{
			{
				Type: batchv1beta1.ConditionInitialized, Status: metav1.ConditionTrue, Reason: batchv1beta1.ReasonAccepted,
				ObservedGeneration: 1, LastTransitionTime: start,
				Message: "the job is accepted and its replicas are created as they are needed",
			},
			{
				Type: batchv1beta1.ConditionRunning, Status: metav1.ConditionFalse, Reason: batchv1beta1.ReasonCreating,
				ObservedGeneration: 1, LastTransitionTime: start,
				Message: "3 of 3 replicas are not running yet: job-master-0 is being created",
			},
		},
	}, d.Status)
}

func TestPlanCreatesMissingPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []string
	}{
		"no pod is created while every replica has one": {
			job:  job(role("worker", 2)),
			pods: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", running)},
		},
		"a pod is created after its first creation failed": {
			job:  job(role("worker", 3)),
			pods: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-2")},
			want: []string{created("job-worker-1", "0")},
		},
		"a pod that vanished before all replicas ran is created in the same attempt": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1")),
			pods: []*corev1.Pod{pod("job-worker-0", running)},
			want: []string{created("job-worker-1", "0")},
		},
		"the pod of a replica that succeeded is not created again": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(0))),
			pods: []*corev1.Pod{pod("job-worker-0", running)},
		},
		"a pod is not created while the earlier pod of its replica is being deleted": {
			job:  job(role("worker", 2)).Scope(batchv1beta1.RestartScopeReplica),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, deleting)},
		},
		"no pod is created for a role without replicas": {
			job:  job(role("master", 0), role("worker", 1)),
			want: []string{created("job-worker-0", "0")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "creations", tc.want, summarize(d).Creates)
			diff(t, "deletions", []string(nil), names(d.Deletes))
			diff(t, "backoffCount", int32(0), d.Status.BackoffCount)
			if d.CreateService {
				t.Error("the Service is created although it exists")
			}
		})
	}
}

func TestPlanDeletesPodsThatBelongToNoReplica(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Sees(
		pod("job-worker-0", running),
		pod("job-worker-1", running),
		pod("job-worker-2", running, deleting),
	)
	diff(t, "deletions", []string{"job-worker-1"}, names(d.Deletes))
	diff(t, "aggregate", &batchv1beta1.Aggregate{Running: 1}, d.Status.Aggregate)
}

func TestReplicasWaitForTheNamesOfTheirPeers(t *testing.T) {
	t.Parallel()
	awaited := func(r framework.Role) framework.Role {
		r.Awaited = true
		return r
	}
	onHost := func(r framework.Role, policy corev1.DNSPolicy) framework.Role {
		r.Template = r.Template.DeepCopy()
		r.Template.Spec.HostNetwork, r.Template.Spec.DNSPolicy = true, policy
		return r
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		sees []*corev1.Pod
		// want lists the peers that each new replica waits for.
		want map[string][]string
	}{
		"replicas wait for the leader": {
			job:  job(role("master", 1), role("worker", 2)),
			want: map[string][]string{"job-master-0": nil, "job-worker-0": {"job-master-0"}, "job-worker-1": {"job-master-0"}},
		},
		"replicas wait for all awaited replicas except themselves": {
			job: job(awaited(role("chief", 1)), awaited(role("worker", 1)), role("evaluator", 1)),
			want: map[string][]string{
				"job-chief-0": {"job-worker-0"}, "job-worker-0": {"job-chief-0"},
				"job-evaluator-0": {"job-chief-0", "job-worker-0"},
			},
		},
		"replicas on the host network also wait for their own name": {
			job: job(
				onHost(role("master", 1), ""),
				onHost(role("worker", 1), corev1.DNSClusterFirstWithHostNet),
				role("reader", 1),
			),
			want: map[string][]string{
				"job-master-0": {"job-master-0"},
				"job-worker-0": {"job-master-0", "job-worker-0"},
				"job-reader-0": {"job-master-0"},
			},
		},
		"replicas do not wait for their own name if cluster names do not resolve": {
			job:  job(onHost(role("master", 1), corev1.DNSDefault)),
			want: map[string][]string{"job-master-0": nil},
		},
		"replicas do not wait for replicas that have ended": {
			job: job(awaited(role("chief", 1)), awaited(restarting(role("worker", 3), batchv1beta1.RestartPolicyNever)),
				awaited(role("ps", 1))).
				Scope(batchv1beta1.RestartScopeReplica).
				Saw(time.Minute, pod("job-chief-0", running), pod("job-worker-0", exited(1)), pod("job-worker-1", running),
					pod("job-worker-2", running)),
			sees: []*corev1.Pod{
				pod("job-chief-0", running), pod("job-worker-0", exited(1)), pod("job-worker-1", exited(0)),
				pod("job-worker-2", running),
			},
			want: map[string][]string{"job-ps-0": {"job-chief-0", "job-worker-2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string][]string{}
			for _, p := range podsToCreate(tc.job.Sees(tc.sees...)) {
				got[p.Name] = nil
				for _, c := range p.Spec.InitContainers { // the arguments are wait-dns, --timeout, its value, and the names
					for _, name := range c.Args[3:] {
						got[p.Name] = append(got[p.Name], strings.TrimSuffix(name, ".job.ns.svc.cluster.local"))
					}
				}
			}
			diff(t, "awaited peers", tc.want, got)
		})
	}
}

func TestPlanHoldsAJobWithoutReplicas(t *testing.T) {
	t.Parallel()
	d := plan.Decide(job(role("master", 0), role("worker", 0)).Job, view.Observation{}, now)
	diff(t, "decision", summary{Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonNoReplicas}, summarize(d))
	if d.CreateService {
		t.Error("the Service of a held job is created")
	}
	for _, conditionType := range []string{batchv1beta1.ConditionInitialized, batchv1beta1.ConditionRunning} {
		diff(t, "condition", &metav1.Condition{
			Type: conditionType, Status: metav1.ConditionFalse, Reason: batchv1beta1.ReasonNoReplicas,
			Message: "every replicaSpec has 0 replicas: nothing can run", ObservedGeneration: 1,
			LastTransitionTime: metav1.NewTime(now),
		}, meta.FindStatusCondition(d.Status.Conditions, conditionType))
	}
}

// Run modes and a scheduler that are set but not enabled have no effect.
func TestPlanIgnoresDisabledModes(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	j.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{}, Pause: &batchv1beta1.PauseMode{}}
	j.Spec.Scheduler = &batchv1beta1.SchedulePolicy{}
	diff(t, "creations", []string{created("job-worker-0", "0")}, summarize(j.Sees()).Creates)
}

func TestDecideDoesNotChangeItsArguments(t *testing.T) {
	t.Parallel()
	build := func() (*jobBuilder, []*corev1.Pod) {
		return job(role("worker", 2)).BackoffLimit(1).Saw(time.Minute, pod("job-worker-0", running),
				pod("job-worker-1", exited(1))),
			[]*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", exited(1), again(1))}
	}
	j, pods := build()
	j.Sees(pods...)
	wantJob, wantPods := build()
	diff(t, "status of the Job", wantJob.Status, j.Status)
	diff(t, "spec of the Job", wantJob.Spec, j.Spec)
	diff(t, "pods", wantPods, pods)
}

func TestStartTime(t *testing.T) {
	t.Parallel()
	created := func(ago time.Duration) podOption {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
	}
	two := func() *jobBuilder {
		j := job(role("worker", 2))
		j.Created = now.Add(-10 * time.Second)
		return j
	}
	for name, tc := range map[string]struct {
		job   *jobBuilder
		pods  []*corev1.Pod
		waits time.Duration
		want  time.Duration
	}{
		"the start time of a new job is now": {job: two()},
		"the start time is when the first status was deferred, whatever the age of pods": {
			job: two(), pods: []*corev1.Pod{pod("job-worker-0", created(time.Hour))}, waits: 3 * time.Second,
			want: 3 * time.Second,
		},
		"the start time is that of the oldest pod after a restart of the controller": {
			job:  two(),
			pods: []*corev1.Pod{pod("job-worker-0", created(time.Second)), pod("job-worker-1", created(3*time.Second))},
			want: 3 * time.Second,
		},
		"the start time is now if the oldest pod was created in the future": {
			job: two(), pods: []*corev1.Pod{pod("job-worker-0", created(-time.Hour))},
		},
		"the start time is not that of an earlier job of the same name": {
			job: two(), pods: []*corev1.Pod{pod("job-worker-0", created(time.Second))}, waits: time.Minute, want: time.Second,
		},
		"the start time is now if a job resumes while pods from before the pause remain": {
			job:  ran().Paused(true).Saw(time.Minute, pod("job-worker-0", running)).Paused(false),
			pods: []*corev1.Pod{pod("job-worker-0", created(time.Hour))},
		},
		"the start time of a job that has already succeeded is that of its oldest pod": {
			job: two(), pods: []*corev1.Pod{pod("job-worker-0", created(3*time.Second), exited(0))}, want: 3 * time.Second,
		},
		"the start time in the status is kept": {
			job: two().Saw(time.Minute), pods: []*corev1.Pod{pod("job-worker-0")}, waits: 3 * time.Second, want: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seeing(tc.pods...)
			if tc.waits > 0 {
				seen.StatusWaitsSince = now.Add(-tc.waits)
			}
			diff(t, "start time", metav1.NewTime(now.Add(-tc.want)), *plan.Decide(tc.job.Job, seen, now).Status.StartTime)
		})
	}
}

// If the write of the first status is deferred until a replica ends, the status still has all conditions.
func TestDeferredFirstStatusIsComplete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen []*corev1.Pod
	}{
		"the first status of a failed job is complete": {
			job: job(role("worker", 1)).BackoffLimit(0), seen: []*corev1.Pod{pod("job-worker-0", exited(1))},
		},
		"the first status of a job that succeeded is complete": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1")},
		},
		"the first status of a restarted job is complete": {
			job: job(role("worker", 2)), seen: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", exited(1))},
		},
		"the first status of a job that awaits reports is complete": {
			job:  job(role("worker", 2)).Scope(scopeJob).Window(2 * time.Second),
			seen: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
		"the first status of a paused job is complete": {
			job: job(role("worker", 2)).Paused(true), seen: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", running)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := tc.job.Sees(tc.seen...).Status
			for _, kind := range []string{batchv1beta1.ConditionInitialized, batchv1beta1.ConditionRunning} {
				if meta.FindStatusCondition(status.Conditions, kind) == nil {
					t.Errorf("the condition %s is missing: %+v", kind, status.Conditions)
				}
			}
			if status.Phase == "" || status.Reason == "" {
				t.Errorf("phase %q and reason %q, want both to be set", status.Phase, status.Reason)
			}
		})
	}
}

// If the user scales a running job to 0 replicas, the job keeps its replicas.
func TestRunningJobKeepsItsReplicasWhileItIsHeld(t *testing.T) {
	t.Parallel()
	j := ran()
	j.Spec.Roles[0].Replicas = 0
	d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", running))
	diff(t, "phase", phaseRunning, d.Status.Phase)
	diff(t, "condition Running", metav1.ConditionTrue, conditionOf(d, batchv1beta1.ConditionRunning).Status)
	diff(t, "tasks", j.Status.Tasks, d.Status.Tasks)
	diff(t, "reason", batchv1beta1.ReasonNoReplicas, d.Status.Reason)
}

// A replica can fail before the first status is written. The status then has the start time of the job.
func TestJobHasStartedWhileItAwaitsTheRootCause(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Window(2*time.Second).Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	diff(t, "observedGeneration", int64(1), d.Status.ObservedGeneration)
	diff(t, "start", new(ago(0)), d.Status.StartTime)
}
