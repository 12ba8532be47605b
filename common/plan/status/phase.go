package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// setPhase sets the phase of the job. If no case applies, the job keeps its phase. A job that is resumed has the phase
// Resuming until it runs.
func (r *renderer) setPhase() {
	f := r.facts
	if r.resumes {
		r.Status.Phase = batchv1beta1.JobPhaseResuming
	}
	switch {
	case f.Finishes && view.IsSuccess(f.End):
		r.Status.Phase = batchv1beta1.JobPhaseSucceeded
	case f.Finishes:
		r.Status.Phase = batchv1beta1.JobPhaseFailed
	case r.pauses() && view.IsPaused(r.Status):
		r.Status.Phase = batchv1beta1.JobPhasePaused
	case r.pauses():
		r.Status.Phase = batchv1beta1.JobPhasePending
	case r.runs() && r.Replicas[0].Outcome.Phase == batchv1beta1.ReplicaPhaseUnknown:
		r.Status.Phase = batchv1beta1.JobPhaseUnknown
	case r.runs() && f.Running:
		r.Status.Phase = batchv1beta1.JobPhaseRunning
	case r.Status.Phase == batchv1beta1.JobPhaseResuming:
	case r.runs() && !f.KeepsWaiting, r.catchesUp(), f.Action == decide.Queue,
		f.Action == decide.Hold && r.Status.Phase == "":
		r.Status.Phase = batchv1beta1.JobPhasePending
	}
}

// setReason sets the reason of the phase. This is the reason of the condition Initialized if the job is refused, and
// the reason of the condition Running otherwise.
func (r *renderer) setReason() {
	f := r.facts
	switch {
	case f.Action == decide.DecideEnd:
		r.Status.Reason = f.End.Reason
	case r.runs(), r.pauses(), f.Action == decide.Queue, f.Action == decide.Hold:
		c := view.Initialized(r.Status)
		if c.Status == metav1.ConditionTrue {
			c = meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionRunning)
		}
		r.Status.Reason = c.Reason
	case r.catchesUp():
		r.Status.Reason = batchv1beta1.ReasonPending
	}
}
