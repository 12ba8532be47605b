package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// TestNeedsLiveRead does not check two kinds of decisions: TestNeedsLiveReadOfPodGroup checks those about PodGroups,
// and TestScalingRequiresALiveRead those about the size of elastic jobs.
func TestNeedsLiveRead(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	restarted := ran().Saw(0, worker0, pod("job-worker-1", exited(1)))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want bool
	}{
		"the first pods of a job require no live read":             {job: job(role("worker", 2))},
		"the first pods of an elastic job require no live read":    {job: job(role("worker", 0)).Elastic(1, 2)},
		"a running job that does not change requires no live read": {job: ran(), pods: []*corev1.Pod{worker0, worker1}},
		"the success of a job requires no live read": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1},
		},
		"a failure that restarts all requires a live read": {
			job: ran(), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure that restarts one replica requires a live read": {
			job: ran().Scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure whose peers have not reported yet requires a live read": {
			job:  ran().Window(2 * time.Second),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a recorded failure whose peers have not reported yet requires no live read": {
			job:  ran().Window(2*time.Second).Saw(0, worker0, pod("job-worker-1", exited(1))),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"a failure that ends the job requires a live read": {
			job: ran().BackoffLimit(0), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a success that is restarted requires no live read": {
			job: job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).Scope(scopeReplica).
				Saw(time.Minute, worker0, worker1),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))},
		},
		"pods of an earlier attempt require no live read": {
			job: restarted, pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"the first pods of a new attempt require a live read": {job: restarted, want: true},
		"an unrecorded pod of a running job requires a live read": {
			job: ran(), pods: []*corev1.Pod{worker0, another("job-worker-1")}, want: true,
		},
		"a job that runs again requires a live read": {
			job:  ran().Saw(0, worker0, pod("job-worker-1", running, withoutAttempt)),
			pods: []*corev1.Pod{worker0, worker1}, want: true,
		},
		"a pause that ends an attempt requires a live read": {
			job: ran().Paused(true), pods: []*corev1.Pod{worker0, worker1}, want: true,
		},
		"a pause that continues requires no live read": {
			job: ran().Paused(true).Saw(0, worker0, worker1), pods: []*corev1.Pod{worker1},
		},
		"a pause whose last pod is gone requires a live read": {job: ran().Paused(true).Saw(0, worker0, worker1), want: true},
		"a pod that appears in a paused job requires a live read": {
			job: wasPaused(), pods: []*corev1.Pod{pod("job-worker-0", again(1))}, want: true,
		},
		"a clean-up requires no live read": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyAll), pods: []*corev1.Pod{worker1},
		},
		"the end of a job whose pods all seem to be gone requires a live read": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyAll), want: true,
		},
		"the end of a job that keeps running pods requires no live read": {
			job:  ran().CleanUp(batchv1beta1.CleanUpPolicyNone),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1},
		},
		"the end of a clean-up with a replica recorded as running requires no live read": {
			job: finishedByAnEarlierVersion(),
		},
		"the end of a clean-up requires no live read": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyAll).Saw(0),
		},
		"a pod that should have stayed and is gone requires a live read": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyNone), want: true,
		},
		"the first pods of a new attempt with a faulty template require no live read": {
			job: ran().Saw(0, worker0, pod("job-worker-1", exited(1))).Refusing("no container"),
		},
		"an unrecorded pod of an elastic job that runs requires a live read": {
			job:  ran().Elastic(1, 2).Saw(0, worker0),
			pods: []*corev1.Pod{worker0, another("job-worker-1")}, want: true,
		},
		"pods that stay after the end and have all ended require no live read": {
			job:  finishedKeeping(batchv1beta1.CleanUpPolicyNone),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))},
		},
		"a pod that had ended, should have stayed and is gone requires no live read": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyNone), pods: []*corev1.Pod{pod("job-worker-1", exited(0))},
		},
		"a pod that should have stayed and is recorded as gone requires no live read": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyNone).Saw(0),
		},
		"a pod that should have stayed and is gone while a peer runs requires no live read": {
			job: job(role("worker", 3)).CleanUp(batchv1beta1.CleanUpPolicyNone).
				Saw(time.Minute, worker0, worker1, pod("job-worker-2", running)).
				Saw(0, pod("job-worker-0", exited(0)), worker1, pod("job-worker-2", running)),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1},
		},
		"a replica that stays failed requires no live read": {
			job:  ran().Scope(scopeReplica).BackoffLimit(0).Saw(0, worker0, pod("job-worker-1", exited(1))),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"a restart because backoffLimit was raised requires a live read": {
			job: ran().Scope(scopeReplica).BackoffLimit(0).Saw(0, worker0, pod("job-worker-1", exited(1))).
				BackoffLimit(1),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a resumed job whose template is faulty requires no live read": {
			job: wasPaused().Paused(false).Refusing("no container"),
		},
		"an unrecorded pod of a job that does not run yet requires no live read": {
			job:  job(role("worker", 2)).Saw(time.Minute, worker0, pod("job-worker-1")),
			pods: []*corev1.Pod{worker0, another("job-worker-1")},
		},
		"a new pod of a replica that has succeeded requires no live read": {
			job:  ran().Saw(0, worker0, pod("job-worker-1", exited(0))),
			pods: []*corev1.Pod{worker0, another("job-worker-1")},
		},
		"an unrecorded pod of an elastic job that waits for a node requires no live read": {
			job:  job(role("worker", 2)).Elastic(1, 2).Saw(time.Minute, worker0, worker1).Saw(0, worker0),
			pods: []*corev1.Pod{worker0, pod("job-worker-1")},
		},
		"a job that is being deleted requires no live read": {
			job: deleted(ran()), pods: []*corev1.Pod{worker0, another("job-worker-1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "NeedsLiveRead", tc.want, tc.job.Sees(tc.pods...).NeedsLiveRead)
		})
	}
}

func TestNeedsLiveReadOfPodGroup(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	inQueue := func() *jobBuilder { return job(role("worker", 2)).InQueue() }
	finished := inQueue().Saw(time.Minute, worker0, worker1).Saw(0, pod("job-worker-0", exited(0)), worker1)
	queueClosed := withCondition("Admitted", metav1.ConditionFalse, "QueueClosed", "Queue lab is closed")
	tooLong := withCondition("MaxDurationExceeded", metav1.ConditionTrue, "MaxDurationExceeded", "2h")
	restarted := inQueue().Saw(time.Minute, worker0, worker1).Saw(0, worker0, pod("job-worker-1", exited(1)))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
		want bool
	}{
		"the PodGroup of a job that ends now requires no live read": {
			job:  inQueue().Saw(time.Minute, worker0, worker1),
			seen: grouped(group(2, admitted), pod("job-worker-0", exited(0)), worker1),
		},
		"a PodGroup that still exists after the end is decided requires a live read": {
			job: finished, seen: grouped(group(2, admitted), pod("job-worker-0", exited(0)), worker1), want: true,
		},
		"a PodGroup that still exists after the job finished requires a live read": {
			job: finished, seen: grouped(group(2, admitted)), want: true,
		},
		"queued pods of a new attempt require no live read": {job: restarted, seen: grouped(group(2))},
		"pods of a new attempt whose queue was just closed require a live read": {
			job: restarted, seen: grouped(group(2, queueClosed)), want: true,
		},
		"pods of the first attempt whose queue was just closed require no live read": {
			job: inQueue().Saw(time.Minute), seen: grouped(group(2, queueClosed)),
		},
		"the end of a job whose PodGroup exceeded maxDuration requires a live read": {
			job:  inQueue().Saw(time.Minute, worker0, worker1),
			seen: grouped(group(2, admitted, tooLong), worker0, worker1), want: true,
		},
		"admitted pods of a new attempt require a live read": {job: restarted, seen: grouped(group(2, admitted)), want: true},
		"the withdrawal of an admission requires a live read": {
			job: ran(), seen: evictedFrom(seeing(worker0, worker1)), want: true,
		},
		"the PodGroup of a job that was created paused requires a live read": {
			job: inQueue().Paused(true).Saw(time.Minute), seen: grouped(group(2, admitted)), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "NeedsLiveRead", tc.want, plan.Decide(tc.job.Job, tc.seen, now).NeedsLiveRead)
		})
	}
}

// deleted returns a job that the user has deleted.
func deleted(j *jobBuilder) *jobBuilder {
	j.Deleting = true
	return j
}

// another returns a running pod of the current attempt whose UID is not the recorded one.
func another(name string) *corev1.Pod {
	p := pod(name, running)
	p.UID = "another"
	return p
}

// finishedKeeping returns a job whose leader succeeded while one peer ran, with the given clean-up policy.
func finishedKeeping(cleanUp batchv1beta1.CleanUpPolicy) *jobBuilder {
	return ran().CleanUp(cleanUp).Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
}
