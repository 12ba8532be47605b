package decide

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// needsLiveRead reports whether a decision is irrevocable. Such a decision must not rely on a cache, which can be
// stale. So the controller reads the objects from the API server and decides again. The parameter before is the view
// before restarts, and s.View is the view after them. The parameter resized reports whether an elastic job adds or
// removes replicas.
func (s *steps) needsLiveRead(before view.View, resized bool) bool {
	status := before.Job.Status
	isMissing := func(r *view.Replica) bool { return r.Pod == nil && view.IsAlive(r.Recorded) }
	switch {
	case s.Action == Leave, s.Action == Expire:
		return false
	case before.Job.Spec.RunsElsewhere():
		// A cache might lack the admission of a job whose status Kueue has copied.
		return s.Admission.Action != "" || s.Forgets
	case slices.ContainsFunc(before.Replicas, func(r *view.Replica) bool { return mayHavePastPod(before, r) }):
		return true
	case s.Action == DecideEnd && s.End.Reason == batchv1beta1.ReasonMaxDurationExceeded:
		// A cache might have the admission of an earlier run.
		return true
	case s.Finishes && !keepsPods(before.Job):
		// The status reports that no pod of the job runs. A cache might lack a pod that was just created.
		return true
	case status.RunningTime != nil && !view.IsRunning(status) && s.Running:
		// The job runs again. In a cache, a pod might still be running although it has failed or was deleted since.
		return true
	case resized: // scaling depends on which pods are gone and which replicas run
		return true
	case s.RecordsFailure: // the failure counts, or ends the job
		return true
	case s.Stall.Reaction() != "": // a cache might lack the failure that made the training hang
		return true
	case s.Action == Stop, s.Action == Withdraw, s.Action == GiveBack:
		// A cache might lack a failure, which must be counted before the attempt ends.
		return true
	case s.Action == Pause && (len(s.Seen.Pods) == 0) != view.IsPaused(status):
		// A cache might lack a pod that was just created, or still have a pod that is gone.
		return true
	case len(s.Creates) > 0 && s.Peers.Attempt > 0: // all pods of the earlier attempt must be gone
		return true
	case len(s.Creates) > 0 && before.Seen.Admission != nil:
		// A cache might have the admission of an earlier run or of fewer pods. In addition, cached pods lack the field
		// schedulingGroup, by which the existing members of the scheduling group are counted.
		return true
	case s.Admission.Action == batchv1beta1.ActionCreate, s.Admission.Action == batchv1beta1.ActionUpdate:
		return true
	case s.Admission.Action == batchv1beta1.ActionDelete && (status.Decided() || status.StartTime == nil):
		// Usually the PodGroup or Workload is already deleted, and a cache might not show that yet. The object still exists
		// if the controller stopped between the status write and the deletion.
		return true
	case s.CleanedUp && keepsPods(before.Job):
		// From now on the status reports missing pods as deleted.
		return slices.ContainsFunc(before.Replicas, isMissing)
	default:
		return false
	}
}

// mayHavePastPod reports whether the observed pod of a replica might be an earlier pod of the replica. The result is
// false if the status records the observed pod. While a job runs, the status records its current pods.
func mayHavePastPod(v view.View, r *view.Replica) bool {
	if r.Pod == nil || r.Pod.UID == r.Recorded.UID {
		return false
	}
	return view.IsRunning(v.Job.Status) && view.IsAlive(r.Recorded) ||
		mayHaveBeenRemoved(v, r)
}
