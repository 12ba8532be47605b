package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// setInitialized sets the condition Initialized.
func (r *renderer) setInitialized() {
	switch {
	case r.facts.Action == decide.Hold:
		r.refuse(batchv1beta1.ReasonNoReplicas, noReplicas)
	case r.pauses():
		r.accept("the job is accepted and its replicas are created when it is resumed")
	case r.runs(), r.facts.Action == decide.Queue:
		if r.catchesUp() {
			r.accept(accepted)
		}
		r.reportRefusal()
	case r.catchesUp():
		r.accept(accepted)
	}
}

// reportRefusal reports why pods cannot be created, or that the job is accepted. The status might already have the
// reason why an object of the job could not be created or updated. This reason stays while there are objects to
// create or update.
func (r *renderer) reportRefusal() {
	f := r.facts
	if f.Refusal != nil {
		r.refuse(f.Refusal.Reason, f.Refusal.Error())
		return
	}
	isMissing := func(replica *view.Replica) bool { return !replica.IsCurrent() && !replica.Done }
	isTried := f.CreateService || f.EnsureNetworkPolicy || f.Admission.Action != "" || r.Standing.Unknown
	if isTried || (f.Wait == nil || len(f.Creates) > 0) && slices.ContainsFunc(r.Replicas, isMissing) {
		if r.isRefused() {
			return
		}
	}
	r.accept(accepted)
}

// accepted is the message of the condition Initialized of a job that runs or is starting.
const accepted = "the job is accepted and its replicas are created as they are needed"

// accept sets Initialized to True, and reports parts of the spec that have no effect.
func (r *renderer) accept(message string) {
	if notice := r.Job.Spec.NoEffect(); notice != "" {
		message += "; " + notice
		if view.Initialized(r.Status) == nil {
			r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventNoEffect, "Plan", notice)
		}
	}
	r.setCondition(batchv1beta1.ConditionInitialized, metav1.ConditionTrue, batchv1beta1.ReasonAccepted, message)
}

// refuse sets Initialized to False, and emits an event if the reason is new.
func (r *renderer) refuse(reason, message string) {
	if before := view.Initialized(r.Status); before == nil || before.Reason != reason {
		r.addEvent(corev1.EventTypeWarning, reason, "Plan", message)
	}
	r.setCondition(batchv1beta1.ConditionInitialized, metav1.ConditionFalse, reason, message)
}

// isRefused reports whether the status has the reason why an object of the job could not be created or updated.
func (r *renderer) isRefused() bool {
	c := view.Initialized(r.Status)
	return c != nil && IsCreateFailure(c.Reason)
}

// IsCreateFailure reports whether a reason of Initialized means that an object of the job could not be created or
// updated.
func IsCreateFailure(reason string) bool {
	switch reason {
	case batchv1beta1.ReasonNameConflict, batchv1beta1.ReasonCreateFailed, batchv1beta1.ReasonAdmissionChangedPod,
		batchv1beta1.ReasonUpdateFailed, batchv1beta1.ReasonNotInstalled, batchv1beta1.ReasonResourceQuotaExceeded:
		return true
	default:
		return false
	}
}
