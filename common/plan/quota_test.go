package plan_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// refusedFor returns the job after a ResourceQuota has rejected one of its pods for the given time.
func refusedFor(j *jobBuilder, d time.Duration) *jobBuilder {
	status.Refuse(&j.Status, &report.RefusedError{
		Reason: batchv1beta1.ReasonResourceQuotaExceeded, Err: errors.New("exceeded quota: few"),
	}, 1, now.Add(-d))
	return j
}

// debugging returns the job in debug mode.
func debugging(j *jobBuilder) *jobBuilder {
	j.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
	return j
}

// patience is how long a job keeps pods that it cannot use.
const patience = policy.QuotaPatience

func TestGiveBack(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	starting := pod("job-worker-0", createdAgo(long))
	runs := pod("job-worker-0", running, createdAgo(long))
	two := func() *jobBuilder { return job(role("worker", 2)).Saw(long) }
	elastic := func() *jobBuilder { return job(role("worker", 0)).Elastic(2, 3).Saw(long).Saw(long) }
	worker1 := pod("job-worker-1", running, createdAgo(long))
	staysFailed := func() *jobBuilder {
		return job(restarting(role("worker", 3), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).InQueue().
			Saw(long, runs, worker1).Saw(long, runs, pod("job-worker-1", exited(1), createdAgo(long)))
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		// reports are the readings of the pods, by their names.
		reports readings
		// want reports whether the job gives its pods back.
		want bool
		// wantTogether is how many of the new pods the job needs together.
		wantTogether int
	}{
		"a job gives back the pods that it has had for some time": {
			job: refusedFor(two(), patience), pods: []*corev1.Pod{starting}, want: true,
		},
		"a job whose first pods wait for their peers gives them back": {
			job: refusedFor(two(), patience), pods: []*corev1.Pod{runs}, want: true,
		},
		"a job keeps its pods for some time": {
			job: refusedFor(two(), patience-time.Second), pods: []*corev1.Pod{starting}, wantTogether: 1,
		},
		"the time begins again when another pod is created": {
			job:  refusedFor(two(), long),
			pods: []*corev1.Pod{pod("job-worker-0", createdAgo(patience-time.Second))}, wantTogether: 1,
		},
		"a job without pods has nothing to give back": {job: refusedFor(two(), long), wantTogether: 2},
		"a job that the API server refuses for another reason keeps its pods": {
			job: two(), pods: []*corev1.Pod{starting}, wantTogether: 1,
		},
		"a job that runs completely has all its pods": {
			job: refusedFor(two(), long), pods: []*corev1.Pod{runs, worker1},
		},
		"a replica that has ended does not wait for its peers": {
			job:  refusedFor(two().Saw(long, pod("job-worker-0", exited(0))), long),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0), createdAgo(long))},
		},
		"a replica that is replaced alone does not stop its peers": {
			job: refusedFor(two().Scope(scopeReplica).Saw(long, runs, worker1).Saw(long, runs,
				pod("job-worker-1", exited(1))), long),
			pods: []*corev1.Pod{runs},
		},
		"a replica that does not restart with the others might train without them": {
			job: refusedFor(two().Scope(scopeReplica), long), pods: []*corev1.Pod{runs},
		},
		"a replica of a gang that is replaced alone does not stop its peers": {
			job: refusedFor(two().Scope(scopeReplica).InQueue().Saw(long, runs, worker1).Saw(long, runs,
				pod("job-worker-1", exited(1))), long),
			pods: []*corev1.Pod{runs},
		},
		"a replica of a gang that stays failed does not stop its peers": {
			job:  refusedFor(staysFailed(), long),
			pods: []*corev1.Pod{runs, pod("job-worker-1", exited(1), createdAgo(long))},
		},
		"a replica that has just succeeded does not stop its peers": {
			job:  refusedFor(job(role("worker", 3)).Saw(long), long),
			pods: []*corev1.Pod{runs, pod("job-worker-1", exited(0), createdAgo(long))},
		},
		"a training that has reported no step gives its pods back": {
			job: refusedFor(two(), long), pods: []*corev1.Pod{runs}, want: true,
			reports: readings{"job-worker-0": percent(7, time.Second)},
		},
		"a training that reports progress goes on": {
			job: refusedFor(two(), long), pods: []*corev1.Pod{runs}, reports: readings{"job-worker-0": step(7, time.Second)},
		},
		"a user might work in the pods of a job in debug mode": {
			job: refusedFor(debugging(two()), long), pods: []*corev1.Pod{runs},
		},
		"replicas that do not restart together might train without the others when they start": {
			job: refusedFor(two().Scope(scopeReplica), long), pods: []*corev1.Pod{starting},
		},
		"a gang does not train without all its replicas": {
			job: refusedFor(two().Scope(scopeReplica).InQueue(), long), pods: []*corev1.Pod{starting}, want: true,
		},
		"an elastic job gives back fewer pods than its minimum, although a replica was replaced and it has trained": {
			job:  refusedFor(elastic().Saw(long, runs, pod("job-worker-1", exited(1))), long),
			pods: []*corev1.Pod{runs}, reports: readings{"job-worker-0": step(7, time.Hour)}, want: true,
		},
		"an elastic job gives back fewer pods than its minimum": {
			job: refusedFor(elastic(), long), pods: []*corev1.Pod{runs}, want: true,
		},
		"an elastic job trains with its minimum": {
			job: refusedFor(elastic(), long), pods: []*corev1.Pod{runs, worker1},
		},
		"an elastic job waits for the room for its minimum": {job: refusedFor(elastic(), long), wantTogether: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.DecideAt(now, reading(tc.reports, tc.pods...))
			evictions, deleted := int32(0), []string(nil)
			if tc.want {
				evictions, deleted = 1, []string{"job-worker-0"}
			}
			diff(t, "evictions", evictions, d.Status.Evictions)
			diff(t, "deleted pods", deleted, names(d.Deletes))
			diff(t, "pods that are needed together", tc.wantTogether, d.Together)
			diff(t, "backoffCount", tc.job.Status.BackoffCount, d.Status.BackoffCount)
			diff(t, "whether a live read confirms the decision", tc.want, tc.want && d.NeedsLiveRead)
		})
	}
}

// When the earlier pods are gone, the controller tries to create all pods again. While the job waits for the quota,
// its status does not change.
func TestAJobThatHasGivenBackItsPodsWaits(t *testing.T) {
	t.Parallel()
	j := refusedFor(job(role("worker", 2)).Saw(time.Hour), time.Hour)
	held := pod("job-worker-0", createdAgo(time.Hour))
	d := j.Sees(held)
	diff(t, "event", []report.Event{{
		Type: corev1.EventTypeNormal, Reason: batchv1beta1.EventStopped, Action: "Stop",
		Message: "deleted the pods of the job, because a ResourceQuota has no room for 1 replica that it needs " +
			"together with them",
	}}, d.Events)

	j.Status = d.Status
	d = j.Sees(held)
	diff(t, "pods to create while an earlier pod exists", []string(nil), summarize(d).Creates)

	j.Status = d.Status
	d = j.Sees()
	diff(t, "pods to create", []string{created("job-worker-0", "1"), created("job-worker-1", "1")}, summarize(d).Creates)
	diff(t, "Running", condition{
		metav1.ConditionFalse, batchv1beta1.ReasonResourceQuotaExceeded, "exceeded quota: few",
	}, conditionOf(d, batchv1beta1.ConditionRunning))
	diff(t, "whether the job has started", true, d.Status.StartTime != nil)

	j.Status = d.Status
	diff(t, "the status of the next reconcile", d.Status, j.Sees().Status)
}

func TestAJobIsRequeuedToGiveBackItsPods(t *testing.T) {
	t.Parallel()
	j := refusedFor(job(role("worker", 2)).Saw(time.Hour), 10*time.Second)
	held := pod("job-worker-0", createdAgo(time.Hour))
	diff(t, "requeue with a pod", now.Add(patience-10*time.Second), j.Sees(held).RequeueAt)
	diff(t, "requeue without a pod", time.Time{}, j.Sees().RequeueAt)
}

// Kueue can admit only some of the replicas of an elastic job. While the others wait, the API server can still reject
// the pod of an admitted replica.
func TestARejectionStaysWhileOtherReplicasWait(t *testing.T) {
	t.Parallel()
	leader := pod("job-worker-0", running)
	j := refusedFor(job(role("worker", 0)).Elastic(1, 3).Saw(time.Hour).Saw(time.Hour, leader), time.Minute)
	seen := seeing(leader)
	seen.Admission = &admitting{answer: view.Answer{
		Wait: &view.Wait{Reason: batchv1beta1.ReasonQueued, Message: "2 of 3 replicas are admitted"},
		Most: map[string]int32{"worker": 2},
	}}
	d := j.DecideAt(now, seen)
	diff(t, "pods to create", 1, len(d.Creates))
	diff(t, "Initialized", condition{
		metav1.ConditionFalse, batchv1beta1.ReasonResourceQuotaExceeded, "exceeded quota: few",
	}, conditionOf(d, batchv1beta1.ConditionInitialized))
}
