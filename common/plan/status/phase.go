package status

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// setPhase sets the phase of the job.
func (r *renderer) setPhase() {
	f := r.facts
	phase := r.startingPhase()
	switch {
	case f.Finishes && view.IsSuccess(f.End):
		phase = batchv1beta1.JobPhaseSucceeded
	case f.Finishes:
		phase = batchv1beta1.JobPhaseFailed
	case f.Action == decide.Hold:
		phase = cmp.Or(phase, batchv1beta1.JobPhasePending)
	case r.pauses():
		phase, _, _ = r.pausing()
	case r.runs():
		phase = r.runningPhase(phase)
	case f.Action == decide.Queue:
		phase = waitingPhase(phase)
	}
	r.Status.Phase = phase
}

// runningPhase returns the phase of a job whose replicas are created as needed. The parameter phase is the result of
// startingPhase.
func (r *renderer) runningPhase(phase batchv1beta1.JobPhase) batchv1beta1.JobPhase {
	switch {
	case r.Replicas[0].Outcome.Phase == batchv1beta1.ReplicaPhaseUnknown:
		return batchv1beta1.JobPhaseUnknown
	case r.facts.Running:
		return batchv1beta1.JobPhaseRunning
	case r.facts.KeepsWaiting:
		return phase
	default:
		return waitingPhase(phase)
	}
}

// startingPhase returns the phase that the job has unless its action or its replicas determine another one.
func (r *renderer) startingPhase() batchv1beta1.JobPhase {
	phase := r.Status.Phase
	if r.resumes {
		phase = batchv1beta1.JobPhaseResuming
	}
	if r.catchesUp() {
		phase = waitingPhase(phase)
	}
	return phase
}

// waitingPhase returns the phase of a job that waits for replicas. A job that is resumed keeps its phase until it runs.
func waitingPhase(phase batchv1beta1.JobPhase) batchv1beta1.JobPhase {
	if phase == batchv1beta1.JobPhaseResuming {
		return phase
	}
	return batchv1beta1.JobPhasePending
}

// setReason sets the reason of the phase.
func (r *renderer) setReason() {
	f := r.facts
	switch {
	case f.Action == decide.DecideEnd:
		r.Status.Reason = f.End.Reason
	case f.Action == decide.Hold:
		r.Status.Reason = batchv1beta1.ReasonNoReplicas
	case r.pauses():
		_, r.Status.Reason, _ = r.pausing()
	case r.runs(), f.Action == decide.Queue:
		r.Status.Reason = r.runningReason
		if c := view.Initialized(r.Status); c.Status == metav1.ConditionFalse { // this problem takes precedence
			r.Status.Reason = c.Reason
		}
	case r.catchesUp():
		r.Status.Reason = batchv1beta1.ReasonPending
	}
}
