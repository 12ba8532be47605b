package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

const (
	phasePaused   = batchv1beta1.JobPhasePaused
	phaseResuming = batchv1beta1.JobPhaseResuming
	phasePending  = batchv1beta1.JobPhasePending
	phaseRunning  = batchv1beta1.JobPhaseRunning
)

// ran returns a job of two replicas that were running one minute ago.
func ran() *jobBuilder {
	return job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
}

// wasPaused returns a job that ran, was then paused, and has no pods left.
func wasPaused() *jobBuilder {
	return ran().Paused(true).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).Saw(time.Minute)
}

func TestPause(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want summary
		// wantPaused is the condition Paused.
		wantPaused condition
	}{
		"a job that is created paused gets no pods": {
			job:        job(role("worker", 2)).Paused(true),
			want:       summary{Phase: phasePaused, Reason: "Paused"},
			wantPaused: condition{metav1.ConditionTrue, "Paused", "the job is paused"},
		},
		"the pods of a running job are deleted": {
			job:        ran().Paused(true),
			pods:       []*corev1.Pod{worker0, worker1},
			want:       summary{Phase: phasePending, Reason: "Pausing", Deletes: []string{"job-worker-0", "job-worker-1"}},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 2"},
		},
		"the pods of a running job are deleted although cleanUpPolicy is None": {
			job:        ran().CleanUp(batchv1beta1.CleanUpPolicyNone).Paused(true),
			pods:       []*corev1.Pod{worker0, worker1},
			want:       summary{Phase: phasePending, Reason: "Pausing", Deletes: []string{"job-worker-0", "job-worker-1"}},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 2"},
		},
		"a pod that is already being deleted is not deleted again": {
			job:        ran().Paused(true).Saw(0, worker0, worker1),
			pods:       []*corev1.Pod{pod("job-worker-1", running, deleting)},
			want:       summary{Phase: phasePending, Reason: "Pausing"},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 1"},
		},
		"a job whose pods are gone is paused": {
			job:        ran().Paused(true).Saw(0, worker0, worker1),
			want:       summary{Phase: phasePaused, Reason: "Paused"},
			wantPaused: condition{metav1.ConditionTrue, "Paused", "the job is paused"},
		},
		"a pod that appears in a paused job is deleted, whatever its attempt": {
			job:        wasPaused(),
			pods:       []*corev1.Pod{pod("job-worker-0", again(1))},
			want:       summary{Phase: phasePending, Reason: "Pausing", Deletes: []string{"job-worker-0"}},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 1"},
		},
		"a failure that is seen together with the pause counts": {
			job:  ran().Paused(true),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: summary{
				Phase: phasePending, Reason: "Pausing", Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-0: exit code 1, counted"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 2"},
		},
		"the pause waits until the root cause of a failure is known": {
			job:        ran().Window(2 * time.Second).Paused(true),
			pods:       []*corev1.Pod{pod("job-worker-0", exited(1)), worker1},
			want:       summary{Phase: phaseRunning, Reason: "ReplicasRunning", RequeueIn: 2 * time.Second},
			wantPaused: condition{},
		},
		"a failure of a pod that the pause deletes does not count": {
			job:        ran().Paused(true).Saw(0, worker0, worker1),
			pods:       []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(143), deleting)},
			want:       summary{Phase: phasePending, Reason: "Pausing", Deletes: []string{"job-worker-0"}},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 2"},
		},
		"a pause cancels a delayed restart": {
			job: job(role("worker", 1)).
				Saw(time.Hour, pod("job-worker-0", running)).Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour))).
				Saw(0, pod("job-worker-0", again(1), exited(1))).Paused(true).Saw(0),
			want: summary{
				Phase: phasePaused, Reason: "Paused", Backoff: 2, Attempt: 2,
				Failures: []string{"job-worker-0: exit code 1, counted", "job-worker-0: exit code 1, counted"},
			},
			wantPaused: condition{metav1.ConditionTrue, "Paused", "the job is paused"},
		},
		"a pausing job does not fail by its deadline, even if that has passed": {
			job:        ran().Deadline(60).Paused(true),
			pods:       []*corev1.Pod{worker0, worker1},
			want:       summary{Phase: phasePending, Reason: "Pausing", Deletes: []string{"job-worker-0", "job-worker-1"}},
			wantPaused: condition{metav1.ConditionFalse, "Pausing", "remaining pods: 2"},
		},
		"a paused job is not requeued for its deadline": {
			job:        ran().Deadline(90).Paused(true).Saw(0, worker0, worker1),
			want:       summary{Phase: phasePaused, Reason: "Paused"},
			wantPaused: condition{metav1.ConditionTrue, "Paused", "the job is paused"},
		},
		"a job whose leader has succeeded ends instead of pausing": {
			job:  ran().Paused(true),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))},
			want: summary{Phase: batchv1beta1.JobPhaseSucceeded, Reason: "LeaderSucceeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "decision", tc.want, summarize(d))
			diff(t, "Paused", tc.wantPaused, conditionOf(d, batchv1beta1.ConditionPaused))
			if d.CreateService {
				t.Error("the Service of a pausing job is created")
			}
		})
	}
}

// The status of a paused job shows no pods.
func TestStatusOfAPausedJob(t *testing.T) {
	t.Parallel()
	j := wasPaused()
	diff(t, "startTime", (*metav1.Time)(nil), j.Status.StartTime)
	diff(t, "runningTime", metav1.NewTime(now.Add(-time.Minute)), ptr.Deref(j.Status.RunningTime, metav1.Time{}))
	diff(t, "pauses", int32(1), j.Status.Pauses)
	diff(t, "aggregate", &batchv1beta1.Aggregate{Deleted: 2}, j.Status.Aggregate)
	diff(t, "replicas", int32(0), j.Status.Replicas)
	diff(t, "ready", "0/2", j.Status.Ready)
	diff(t, "Running", condition{metav1.ConditionFalse, "Paused", "the job is paused"},
		conditionOf(decided(j.Status), batchv1beta1.ConditionRunning))

	diff(t, "Initialized", condition{
		metav1.ConditionTrue, "Accepted", "the job is accepted and its replicas are created when it is resumed",
	},
		conditionOf(decided(j.Status), batchv1beta1.ConditionInitialized))

	pausing := ran().Paused(true).Sees(pod("job-worker-0", running), pod("job-worker-1", running)).Status
	diff(t, "ready while pods remain", "0/2", pausing.Ready)
	diff(t, "aggregate while pods remain", &batchv1beta1.Aggregate{Deleted: 2}, pausing.Aggregate)

	created := job(role("worker", 2)).Paused(true).Sees().Status
	diff(t, "pauses of a job that has not started", int32(0), created.Pauses)
	diff(t, "aggregate of a job that has not started", &batchv1beta1.Aggregate{Creating: 2}, created.Aggregate)
}

func TestResume(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want summary
	}{
		"the pods of a resumed job belong to a new attempt": {
			job: wasPaused(),
			want: summary{
				Phase: phaseResuming, Reason: "Creating",
				Creates: []string{created("job-worker-0", "1"), created("job-worker-1", "1")},
			},
		},
		"a job that was created paused starts with attempt 0": {
			job: job(role("worker", 2)).Paused(true).Saw(time.Minute),
			want: summary{
				Phase: phaseResuming, Reason: "Creating",
				Creates: []string{created("job-worker-0", "0"), created("job-worker-1", "0")},
			},
		},
		"no pod is created before all pods that the pause deletes are gone": {
			job:  ran().Scope(scopeReplica).Paused(true).Saw(0, pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-worker-1", running, deleting)},
			want: summary{Phase: phaseResuming, Reason: "Creating", RequeueIn: untilOverdue},
		},
		"no pod is created before the pod of an individually restarted replica is gone": {
			job: ran().Scope(scopeReplica).Saw(time.Minute, pod("job-worker-0", running),
				pod("job-worker-1", exitedAgo(1, time.Minute))).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", againAlone(1), running)).Paused(true).
				Saw(0, pod("job-worker-0", running), pod("job-worker-1", againAlone(1), running)),
			pods: []*corev1.Pod{pod("job-worker-1", againAlone(1), running)},
			want: summary{
				Phase: phaseResuming, Reason: "Creating", Backoff: 1, Failures: []string{"job-worker-1: exit code 1, counted"},
				Deletes: []string{"job-worker-1"},
			},
		},
		"the phase is Resuming until all replicas run": {
			job:  wasPaused().Paused(false).Saw(time.Minute),
			pods: []*corev1.Pod{pod("job-worker-0", again(1), running), pod("job-worker-1", again(1))},
			want: summary{Phase: phaseResuming, Reason: "Pending"},
		},
		"the phase is Running when all replicas run": {
			job:  wasPaused().Paused(false).Saw(time.Minute),
			pods: both,
			want: summary{Phase: phaseRunning, Reason: "ReplicasRunning"},
		},
		"a failure of a resumed job restarts it as usual": {
			job:  wasPaused().Paused(false).Saw(time.Minute).Saw(time.Minute, both...),
			pods: []*corev1.Pod{pod("job-worker-0", again(1), exited(1)), pod("job-worker-1", again(1), exited(1))},
			want: summary{
				Phase: phasePending, Reason: "Restarting", Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-0: exit code 1, counted"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Paused(false).Sees(tc.pods...)
			diff(t, "decision", tc.want, summarize(d))
			diff(t, "Paused", condition{metav1.ConditionFalse, "Resumed", "the job was resumed"},
				conditionOf(d, batchv1beta1.ConditionPaused))
		})
	}
}

// When a job is resumed, its deadline and its StartDuration count from the new start.
func TestResumedJobStartsItsClocksAgain(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Deadline(90).Paused(true).Saw(time.Hour).Paused(false).Saw(time.Minute)
	j.Created = now.Add(-2 * time.Hour)
	d := j.Sees(pod("job-worker-0", running))
	diff(t, "startTime", metav1.NewTime(now.Add(-time.Minute)), ptr.Deref(d.Status.StartTime, metav1.Time{}))
	diff(t, "time until the deadline", 30*time.Second, summarize(d).RequeueIn)
	diff(t, "time to start", time.Minute, ptr.Deref(d.StartDuration, 0))
}

// Restart delays grow with failures, not with pauses.
func TestPausesDoNotDelayRestarts(t *testing.T) {
	t.Parallel()
	j := wasPaused().Paused(false).Saw(time.Minute).
		Saw(time.Minute, pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	d := j.Sees(pod("job-worker-0", again(1), exited(1)), pod("job-worker-1", again(1), exited(1)))
	diff(t, "restartTime", (*metav1.Time)(nil), d.Status.Tasks[0].Replicas[0].RestartTime)
}

// ReplicaFailure becomes False when the job is paused during a recovery.
func TestPauseEndsARecovery(t *testing.T) {
	t.Parallel()
	j := ran().Saw(time.Minute, pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))).Paused(true)
	diff(t, "ReplicaFailure", condition{metav1.ConditionFalse, "Paused", "the job is paused"},
		conditionOf(j.Sees(), batchv1beta1.ConditionReplicaFailure))
}

// A pause emits one event. The end of the pause emits another event.
func TestEventsOfAPause(t *testing.T) {
	t.Parallel()
	reasons := func(d plan.Decision) []string {
		var list []string
		for _, e := range d.Events {
			list = append(list, e.Reason)
		}
		return list
	}
	pausing := ran().Paused(true).Saw(0, pod("job-worker-0", running), pod("job-worker-1", running))
	diff(t, "events while pods remain", []string(nil), reasons(pausing.Sees(pod("job-worker-0", running, deleting))))
	diff(t, "events when no pod remains", []string{"Paused"}, reasons(pausing.Sees()))
	diff(t, "events while the job is paused", []string(nil), reasons(wasPaused().Sees()))
	diff(t, "events when the job is resumed", []string{"Resumed"}, reasons(wasPaused().Paused(false).Sees()))
	held := job(role("worker", 0)).Paused(true).Saw(0).Paused(false)
	diff(t, "events when the job is resumed without replicas", []string{"Resumed", "NoReplicas"}, reasons(held.Sees()))
	diff(t, "events while the job has no replicas", []string(nil), reasons(held.Saw(0).Sees()))
	diff(t, "events while the job resumes", []string(nil), reasons(wasPaused().Paused(false).Saw(0).Sees()))
}

func TestStatusOfAJobThatIsCreatedPaused(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Paused(true).Sees()
	diff(t, "observedGeneration", int64(1), d.Status.ObservedGeneration)
	diff(t, "ReplicaFailure", condition{}, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
	stopped := ran().Paused(true).Sees(pod("job-worker-0", running), pod("job-worker-1", running))
	diff(t, "ReplicaFailure of a job that did not fail", condition{},
		conditionOf(stopped, batchv1beta1.ConditionReplicaFailure))
}

// A status can lack the start of the job if it was written from a cache that lacked the pods. The pause must begin a
// new attempt nevertheless, so that the ends of these pods are ignored.
func TestAPauseBeginsANewAttemptIfTheJobHasPods(t *testing.T) {
	t.Parallel()
	waiting := func() *jobBuilder {
		j := job(role("worker", 1)).Saw(time.Minute)
		j.Status.StartTime = nil
		return j.Paused(true)
	}
	resumed := waiting().Saw(0).Paused(false).Saw(0)
	resumed.Status.StartTime = nil
	replaced := waiting()
	replaced.Status.Pauses = 1
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want int32
	}{
		"a job without pods has not started": {job: waiting()},
		"a job with a pod that is paused for the second time has started": {
			resumed.Paused(true), []*corev1.Pod{pod("job-worker-0", running)}, 1,
		},
		"a job with a pod of an earlier attempt has not started": {
			replaced, []*corev1.Pod{pod("job-worker-0", running)}, 1,
		},
		"a job with a pod has started": {waiting(), []*corev1.Pod{pod("job-worker-0", running)}, 1},
		"a job that is paused does not start with a pod that appears late": {
			waiting().Saw(0), []*corev1.Pod{pod("job-worker-0", running)}, 0,
		},
		"a job whose late pod is being deleted does not start either": {
			waiting().Saw(0).Saw(0, pod("job-worker-0", running)), []*corev1.Pod{pod("job-worker-0", running)}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "pauses", tc.want, d.Status.Pauses)
		})
	}
}
