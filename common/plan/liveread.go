package plan

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// needsLiveRead reports whether a decision is irrevocable, so that it must not rely on a stale cache. The controller
// then makes it again, on what the API server has. This is the one place that says which decisions those are. The given
// view is the one before restarts, s.view the one after.
func needsLiveRead(v view, c choice, s *steps) bool {
	status := v.job.Status
	isMissing := func(r *replica) bool { return r.pod == nil && isAlive(r.recorded) }
	switch {
	case c.action == leave:
		return false
	case slices.ContainsFunc(v.replicas, v.mayHavePastPod):
		return true
	case c.action == decideEnd && c.ending.reason == batchv1beta1.ReasonMaxDurationExceeded:
		// A cache may have the admission of an earlier run.
		return true
	//mutant:a cache is trusted that nothing of a job runs => case false:
	case s.Status.Finished() && !status.Finished() && !keepsPods(v.job):
		// The status reports that nothing of the job runs. A cache may lack a pod that was just created.
		return true
	case v.resized: // which pods are gone, and which replicas run, must not be guessed
		return true
	case s.recordsFailure: // it counts, or ends the job
		return true
	case c.action == stop: // what failed before must be counted before the attempt ends
		return true
	//mutant:a pause trusts a cache without pods => case false:
	case c.action == pause && isPaused(s.Status) != isPaused(status):
		// A cache may lack a pod that was just created, or have one that is gone.
		return true
	case len(s.Creates) > 0 && s.gang.Attempt > 0: // which pods of the earlier attempt are gone must not be guessed
		return true
	//mutant:a gang: a cache is trusted about the admission => case false:
	case len(s.Creates) > 0 && v.seen.Admission != nil:
		// A cache may have the admission of an earlier run, or of fewer pods; and it does not have the groups of pods.
		return true
	case s.announcesWait && s.gang.Attempt > 0: // a cache may have the admission of an earlier run
		return true
	//mutant:a gang: a cache is trusted about the group => case false:
	case s.Admission.Action == batchv1beta1.ActionCreate, s.Admission.Action == batchv1beta1.ActionUpdate:
		return true
	case s.Admission.Action == batchv1beta1.ActionDelete && (status.Decided() || status.StartTime == nil):
		// It was deleted already, unless the controller was stopped in between. The cache may not know.
		return true
	case s.cleanedUp && keepsPods(v.job):
		// From now on the status says of missing pods that they were deleted.
		return slices.ContainsFunc(v.replicas, isMissing)
	default:
		return false
	}
}

// mayHavePastPod reports whether the pod of a replica, which is not the recorded one, may be one of the past. A job
// that runs has the pods that are recorded. A replica of an elastic job may have been given up and come back.
func (v *view) mayHavePastPod(r *replica) bool {
	if r.pod == nil || r.pod.UID == r.recorded.UID {
		return false
	}
	return isRunning(v.job.Status) && isAlive(r.recorded) ||
		v.job.Spec.Elastic != nil && r.outcome.Phase != batchv1beta1.ReplicaPhasePending
}
