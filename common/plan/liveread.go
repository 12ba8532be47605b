package plan

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// needsLiveRead reports whether a decision is irrevocable and must not rely on a cache, which can be stale. The
// controller then decides again on a live read. This function alone determines which decisions require that. v is the
// view before restarts, and s.view is the view after them.
func needsLiveRead(v view, c choice, s *steps) bool {
	status := v.job.Status
	isMissing := func(r *replica) bool { return r.pod == nil && isAlive(r.recorded) }
	switch {
	case c.action == leave:
		return false
	case c.action == dispatch:
		// A cache might lack the admission of a job whose status Kueue has copied.
		return s.Admission.Action != "" || hasRun(status) && !hasRun(s.Status)
	case slices.ContainsFunc(v.replicas, v.mayHavePastPod):
		return true
	case c.action == decideEnd && c.ending.reason == batchv1beta1.ReasonMaxDurationExceeded:
		// A cache might have the admission of an earlier run.
		return true
	case s.Status.Finished() && !status.Finished() && !keepsPods(v.job):
		// The status reports that no pod of the job runs. A cache might lack a pod that was just created.
		return true
	case status.RunningTime != nil && !isRunning(status) && isRunning(s.Status):
		// The job runs again. A cache might show a pod as it was before it had to be replaced.
		return true
	case v.resized: // scaling depends on which pods are gone and which replicas run
		return true
	case s.recordsFailure: // the failure counts, or ends the job
		return true
	case s.Stall != "": // a cache might lack the failure that made the training hang
		return true
	case c.action == stop, c.action == withdraw, c.action == giveBack:
		// Earlier failures must be counted before the attempt ends.
		return true
	case c.action == pause && isPaused(s.Status) != isPaused(status):
		// A cache might lack a pod that was just created, or still have a pod that is gone.
		return true
	case len(s.Creates) > 0 && s.gang.Attempt > 0: // all pods of the earlier attempt must be gone
		return true
	case len(s.Creates) > 0 && v.seen.Admission != nil:
		// A cache might have the admission of an earlier run or of fewer pods. It also lacks the field schedulingGroup of
		// pods.
		return true
	case s.announcesWait && s.gang.Attempt > 0: // a cache might have the admission of an earlier run
		return true
	case s.Admission.Action == batchv1beta1.ActionCreate, s.Admission.Action == batchv1beta1.ActionUpdate:
		return true
	case s.Admission.Action == batchv1beta1.ActionDelete && (status.Decided() || status.StartTime == nil):
		// The object is already deleted, unless the controller stopped in between. A cache might not show that.
		return true
	case s.cleanedUp && keepsPods(v.job):
		// From now on the status reports missing pods as deleted.
		return slices.ContainsFunc(v.replicas, isMissing)
	default:
		return false
	}
}

// mayHavePastPod reports whether the pod of a replica is not the recorded one and might belong to the past. While a job
// runs, its current pods are recorded. A replica of an elastic job might have been removed and added again.
func (v *view) mayHavePastPod(r *replica) bool {
	if r.pod == nil || r.pod.UID == r.recorded.UID {
		return false
	}
	return isRunning(v.job.Status) && isAlive(r.recorded) ||
		v.job.Spec.Elastic != nil && r.outcome.Phase != batchv1beta1.ReplicaPhasePending
}
