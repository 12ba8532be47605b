package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// More decisions about PodGroups are in TestPlanPodGroup, and those about the size of elastic jobs in
// TestScalingIsDecidedOnWhatThereIs.
func TestNeedsLiveRead(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	restarted := ran().Saw(0, worker0, pod("job-worker-1", exited(1)))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want bool
	}{
		"the first pods of a job": {job: job(role("worker", 2))},
		"nothing":                 {job: ran(), pods: []*corev1.Pod{worker0, worker1}},
		"the success of a job":    {job: ran(), pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1}},
		"a failure that restarts all": {
			job: ran(), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure that restarts one replica": {
			job: ran().Scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure whose peers have yet to report": {
			job:  ran().Window(2 * time.Second),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure that is recorded and whose peers have yet to report": {
			job:  ran().Window(2*time.Second).Saw(0, worker0, pod("job-worker-1", exited(1))),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"a failure that ends the job": {
			job: ran().BackoffLimit(0), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a success that is to run again": {
			job: job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).Scope(scopeReplica).
				Saw(time.Minute, worker0, worker1),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))},
		},
		"pods of an earlier attempt": {
			job: restarted, pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"the first pods of a new attempt": {job: restarted, want: true},
		"a pod that is not the recorded one": {
			job: ran(), pods: []*corev1.Pod{worker0, another("job-worker-1")}, want: true,
		},
		"the end of an attempt, by a pause": {
			job: ran().Paused(true), pods: []*corev1.Pod{worker0, worker1}, want: true,
		},
		"a pause that goes on": {
			job: ran().Paused(true).Saw(0, worker0, worker1), pods: []*corev1.Pod{worker1},
		},
		"a pause whose last pod is gone": {job: ran().Paused(true).Saw(0, worker0, worker1), want: true},
		"a pod that appears in a paused job": {
			job: wasPaused(), pods: []*corev1.Pod{pod("job-worker-0", again(1))}, want: true,
		},
		"a clean-up": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyAll), pods: []*corev1.Pod{worker1},
		},
		"the end of a job, since nothing of it seems to run": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyAll), want: true,
		},
		"the end of a job that keeps pods that run": {
			job:  ran().CleanUp(batchv1beta1.CleanUpPolicyNone),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1},
		},
		"the end of a clean-up after which an entry still runs, as an earlier version left it": {
			job: finishedByAnEarlierVersion(),
		},
		"the end of a clean-up":                    {job: finishedKeeping(batchv1beta1.CleanUpPolicyAll).Saw(0)},
		"a pod that is gone though it was to stay": {job: finishedKeeping(batchv1beta1.CleanUpPolicyNone), want: true},
		"the first pods of a new attempt, whose template is faulty": {
			job: ran().Saw(0, worker0, pod("job-worker-1", exited(1))).Refusing("no container"),
		},
		"a pod of an elastic job that is not recorded and runs": {
			job:  ran().Elastic(1, 2).Saw(0, worker0),
			pods: []*corev1.Pod{worker0, another("job-worker-1")}, want: true,
		},
		"pods that stay after the end, of which one has ended": {
			job:  finishedKeeping(batchv1beta1.CleanUpPolicyNone),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))},
		},
		"a pod that had ended and is gone though it was to stay": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyNone), pods: []*corev1.Pod{pod("job-worker-1", exited(0))},
		},
		"a pod that is gone though it was to stay, which is written": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyNone).Saw(0),
		},
		"a pod that is gone though it was to stay, while a peer runs on": {
			job: job(role("worker", 3)).CleanUp(batchv1beta1.CleanUpPolicyNone).
				Saw(time.Minute, worker0, worker1, pod("job-worker-2", running)).
				Saw(0, pod("job-worker-0", exited(0)), worker1, pod("job-worker-2", running)),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1},
		},
		"a replica that stays failed": {
			job:  ran().Scope(scopeReplica).BackoffLimit(0).Saw(0, worker0, pod("job-worker-1", exited(1))),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"a replica that stayed failed until the limit was raised": {
			job: ran().Scope(scopeReplica).BackoffLimit(0).Saw(0, worker0, pod("job-worker-1", exited(1))).
				BackoffLimit(1),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a resumed job whose template is faulty": {job: wasPaused().Paused(false).Refusing("no container")},
		"a pod that is not the recorded one, of a job that does not run yet": {
			job:  job(role("worker", 2)).Saw(time.Minute, worker0, pod("job-worker-1")),
			pods: []*corev1.Pod{worker0, another("job-worker-1")},
		},
		"a pod in place of one that has succeeded": {
			job:  ran().Saw(0, worker0, pod("job-worker-1", exited(0))),
			pods: []*corev1.Pod{worker0, another("job-worker-1")},
		},
		"a pod of an elastic job that is not recorded and waits for a node": {
			job:  ran().Elastic(1, 2).Saw(0, worker0),
			pods: []*corev1.Pod{worker0, pod("job-worker-1")},
		},
		"a job that is being deleted": {job: deleted(ran()), pods: []*corev1.Pod{worker0, another("job-worker-1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "need of a live read", tc.want, tc.job.Sees(tc.pods...).NeedsLiveRead)
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
		seen plan.Observation
		want bool
	}{
		"the group of a job that ends now": {
			job:  inQueue().Saw(time.Minute, worker0, worker1),
			seen: grouped(group(2, admitted), pod("job-worker-0", exited(0)), worker1),
		},
		"the group that a job whose end is decided still has": {
			job: finished, seen: grouped(group(2, admitted), pod("job-worker-0", exited(0)), worker1), want: true,
		},
		"the group that a finished job still has": {job: finished, seen: grouped(group(2, admitted)), want: true},
		"the pods of a new attempt that wait":     {job: restarted, seen: grouped(group(2))},
		"the pods of a new attempt whose queue is newly closed": {
			job: restarted, seen: grouped(group(2, queueClosed)), want: true,
		},
		"the pods of the first attempt whose queue is newly closed": {
			job: inQueue().Saw(time.Minute), seen: grouped(group(2, queueClosed)),
		},
		"the end of a job whose group was on nodes for too long": {
			job:  inQueue().Saw(time.Minute, worker0, worker1),
			seen: grouped(group(2, admitted, tooLong), worker0, worker1), want: true,
		},
		"the pods of a new attempt that are admitted": {job: restarted, seen: grouped(group(2, admitted)), want: true},
		"the group of a job that was paused from the start": {
			job: inQueue().Paused(true).Saw(time.Minute), seen: grouped(group(2, admitted)), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "need of a live read", tc.want, plan.Decide(tc.job.Job, tc.seen, now).NeedsLiveRead)
		})
	}
}

// deleted returns a job that its user has deleted.
func deleted(j *jobBuilder) *jobBuilder {
	j.Deleting = true
	return j
}

// another returns a running pod of the current attempt that is not the recorded one: it has another UID.
func another(name string) *corev1.Pod {
	p := pod(name, running)
	p.UID = "another"
	return p
}

// finishedKeeping returns a job that has finished while one peer ran, with a clean-up policy.
func finishedKeeping(cleanUp batchv1beta1.CleanUpPolicy) *jobBuilder {
	return ran().CleanUp(cleanUp).Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
}
