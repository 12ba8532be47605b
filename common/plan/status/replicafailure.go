package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// setReplicaFailure sets the condition ReplicaFailure. It is True from a failure until the job recovers. It becomes
// False earlier if the job is paused or its admission is withdrawn. It also becomes False if the job ends for another
// reason than a failure, unless a replica stays failed.
func (r *renderer) setReplicaFailure() {
	f := r.facts
	switch {
	case f.Action == decide.Stop:
		r.clearReplicaFailure(batchv1beta1.ReasonPaused, "the job is paused")
	case f.Action == decide.Withdraw:
		r.clearReplicaFailure(batchv1beta1.ReasonQueued, f.Withdrawn)
		r.reportFailure()
	case r.runs():
		r.reportFailure()
	case f.Action == decide.AwaitRootCause && f.RecordsFailure:
		r.reportFailure()
		// If the condition is already True because of an earlier failure, its transition time has not changed yet.
		c := meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
		c.LastTransitionTime = *view.Stored(r.Now)
	case f.EndedBy != nil:
		r.setFailed(*f.EndedBy, "")
	case f.Action == decide.DecideEnd && !slices.ContainsFunc(r.Replicas, (*view.Replica).StaysFailed):
		r.clearReplicaFailure(f.End.Reason, f.End.Message)
	}
}

// reportFailure reports the failure of a replica that has not been restarted. If there is none, it reports the
// failure that restarts replicas now, or the recovery of the job.
func (r *renderer) reportFailure() {
	for _, failed := range r.Replicas {
		if failure := failed.Failure(); failure != nil {
			r.setFailed(view.ReplicaFailure{Replica: failed, Failure: *failure}, "")
			return
		}
	}
	if r.facts.Restarted != nil {
		r.setFailed(*r.facts.Restarted, " and is being replaced")
	}
	if r.facts.Recovered {
		failed := meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
		since := failed.LastTransitionTime.Time
		if last := r.Status.Failures; len(last) > 0 && last[0].Time.Time.Before(since) {
			since = last[0].Time.Time // the controller saw the failure late
		}
		r.Recovery = &Recovery{Cause: failed.Reason, Duration: r.Now.Sub(since)}
		r.clearReplicaFailure(batchv1beta1.ReasonRecovered, r.recovered())
	}
}

// setFailed sets the condition ReplicaFailure to True. The parameter next is added to the message, and describes what
// happens to the replica after the failure.
func (r *renderer) setFailed(f view.ReplicaFailure, next string) {
	r.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, f.Failure.Reason, f.String()+next)
}

// clearReplicaFailure sets the condition ReplicaFailure to False if it is True.
func (r *renderer) clearReplicaFailure(reason, message string) {
	if view.HasFailed(r.Status) {
		r.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, reason, message)
	}
}
