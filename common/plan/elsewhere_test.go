package plan_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// dispatched returns a job of two workers that runs in another cluster, with the status of its copy.
func dispatched(status batchv1beta1.JobStatus) *jobBuilder {
	j := managedBy(batchv1beta1.ManagedByMultiKueue, job(role("worker", 2)))
	j.Status = status
	return j
}

// queued returns an observation of a job that waits for its admission and has no pods.
func queued() view.Observation {
	return view.Observation{Admission: &admitting{
		answer:   view.Answer{Wait: &view.Wait{Reason: batchv1beta1.ReasonQueued, Message: "it waits"}},
		standing: view.Standing{Waits: true},
	}}
}

func TestStatusOfAJobThatWaitsToRunInAnotherCluster(t *testing.T) {
	t.Parallel()
	j := dispatched(batchv1beta1.JobStatus{})
	d := j.DecideAt(now, queued())
	diff(t, "decision", summary{Phase: phasePending, Reason: batchv1beta1.ReasonQueued}, summarize(d))
	diff(t, "observedGeneration", int64(1), d.Status.ObservedGeneration)
	diff(t, "selector", "batch.tensorstack.dev/job-kind=TestJob,batch.tensorstack.dev/job-name=job", d.Status.Selector)
	diff(t, "aggregate", &batchv1beta1.Aggregate{Creating: 2}, d.Status.Aggregate)
	diff(t, "Running", condition{"False", batchv1beta1.ReasonQueued, "it waits"},
		conditionOf(d, batchv1beta1.ConditionRunning))
	diff(t, "live read", false, d.NeedsLiveRead)
	j.Status = d.Status
	diff(t, "status a minute later", d.Status, j.DecideAt(now.Add(time.Minute), queued()).Status)
}

// The next copy has a status of its own. Until it exists, the job has the status of a new job.
func TestStatusOfACopyThatIsGoneIsDiscarded(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	for name, copied := range map[string]*jobBuilder{
		"the status of a copy that ran is discarded": ran(),
		"the end of a replica is discarded":          ran().Saw(0, worker0, pod("job-worker-1", exited(0))),
		"the counts of a copy that failed and was evicted are discarded": ran().Scope(scopeReplica).
			SawIn(evictedFrom(seeing(worker0, pod("job-worker-1", exited(1))))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pauses := range []bool{false, true} {
				d := dispatched(copied.Status).Paused(pauses).DecideAt(now, queued())
				diff(t, "status", dispatched(batchv1beta1.JobStatus{}).Paused(pauses).DecideAt(now, queued()).Status, d.Status)
				diff(t, "live read", true, d.NeedsLiveRead)
			}
		})
	}
}

func TestAJobThatIsResumedWaitsToRunInAnotherCluster(t *testing.T) {
	t.Parallel()
	j := dispatched(batchv1beta1.JobStatus{}).Paused(true)
	j.Status = j.DecideAt(now, queued()).Status
	diff(t, "whether the job is paused", true, view.IsPaused(j.Status))
	d := j.Paused(false).DecideAt(now, queued())
	diff(t, "decision", summary{Phase: phaseResuming, Reason: batchv1beta1.ReasonQueued}, summarize(d))
	diff(t, "Paused", condition{"False", batchv1beta1.ReasonResumed, "the job was resumed"},
		conditionOf(d, batchv1beta1.ConditionPaused))
}

func TestAPauseDoesNotDiscardTheEndOfACopy(t *testing.T) {
	t.Parallel()
	status := ran().GivePeers(time.Minute).
		Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running)).Status
	j := dispatched(status).Paused(true)
	j.Generation++
	d := j.DecideAt(now, queued())
	diff(t, "observedGeneration of the copy", int64(1), d.Status.ObservedGeneration)
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhaseSucceeded, Reason: batchv1beta1.ReasonLeaderSucceeded,
	}, summarize(d))
	diff(t, "whether the job has succeeded", true,
		meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionCompleted))
}

func TestAFinishedJobOfAnotherClusterIsRequeuedWhenItExpires(t *testing.T) {
	t.Parallel()
	status := ran().Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))).Status
	diff(t, "requeue delay", time.Minute, summarize(dispatched(status).TTL(60).DecideAt(now, queued())).RequeueIn)
}

// The job of this test ran in this cluster before its manager was changed to MultiKueue, so it still has a pod here.
func TestPodsDoNotHideWhyAJobCannotBeDispatched(t *testing.T) {
	t.Parallel()
	j := dispatched(batchv1beta1.JobStatus{})
	seen := queued()
	seen.Pods = seeing(pod("job-worker-0", running)).Pods
	refused := &report.RefusedError{Reason: batchv1beta1.ReasonCreateFailed, Err: errors.New("no right")}
	status.Refuse(&j.Status, refused, 0, now)
	seen.Admission.(*admitting).answer.Change.Action = batchv1beta1.ActionCreate
	diff(t, "reason of Initialized", batchv1beta1.ReasonCreateFailed,
		conditionOf(j.DecideAt(now, seen), batchv1beta1.ConditionInitialized).Reason)
}

func TestAJobOfAnotherClusterWithoutReplicasIsRequeuedAtItsDeadline(t *testing.T) {
	t.Parallel()
	j := withoutReplicas(dispatched(ran().Status)).Deadline(3600)
	diff(t, "requeue delay", 59*time.Minute, summarize(j.DecideAt(now, queued())).RequeueIn)
}
