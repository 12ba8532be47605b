package status

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// setEnd sets the condition that records how the job ends, and the condition Completed or Failed when the job finishes.
func (r *renderer) setEnd() {
	f := r.facts
	if f.Action == decide.DecideEnd {
		meta.SetStatusCondition(&r.Status.Conditions, *f.End)
	}
	if !f.Finishes {
		return
	}
	r.Status.CompletionTime = view.Stored(r.Now)
	condition, eventType, event := batchv1beta1.ConditionFailed, corev1.EventTypeWarning, batchv1beta1.EventFailed
	if view.IsSuccess(f.End) {
		condition, eventType, event = batchv1beta1.ConditionCompleted, corev1.EventTypeNormal, batchv1beta1.EventCompleted
	}
	r.setCondition(condition, metav1.ConditionTrue, f.End.Reason, f.End.Message)
	r.addEvent(eventType, event, "Finish", f.End.Message, r.factsOfEnd(f.End.Reason)...)
}

// factsOfEnd returns the keys and values of a log line about the failure that ended the job. This failure is the
// latest one in the status. The result is nil if no failure ended the job.
func (r *renderer) factsOfEnd(reason string) []any {
	isFailure := reason == batchv1beta1.ReasonPermanentFailure || reason == batchv1beta1.ReasonBackoffLimitExceeded
	if !isFailure || len(r.Status.Failures) == 0 {
		return nil
	}
	last := r.Status.Failures[0]
	facts := []any{"replica", last.Replica, "cause", last.Reason, "counted", last.Counted}
	if last.ExitCode != nil {
		facts = append(facts, "exitCode", *last.ExitCode)
	}
	return facts
}
