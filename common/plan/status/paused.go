package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// resume sets the condition Paused to False if a job that was paused starts, or waits for its start.
func (r *renderer) resume() {
	mayResume := r.begins() || r.facts.Action == decide.Hold || r.facts.Action == decide.Queue
	paused := meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionPaused)
	if !mayResume || paused == nil || paused.Reason == batchv1beta1.ReasonResumed {
		return
	}
	r.resumes = true
	r.setCondition(batchv1beta1.ConditionPaused, metav1.ConditionFalse, batchv1beta1.ReasonResumed, "the job was resumed")
	r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventResumed, "Resume",
		"the job was resumed and its replicas are created")
}

// pauses reports whether the user pauses the job.
func (r *renderer) pauses() bool {
	return r.facts.Action == decide.Pause || r.facts.Action == decide.Stop
}

// setPaused sets the condition Paused of a job that the user pauses. The condition becomes True when the last pod is
// gone.
func (r *renderer) setPaused() {
	if !r.pauses() {
		return
	}
	if left := len(r.Seen.Pods); left > 0 {
		r.setCondition(batchv1beta1.ConditionPaused, metav1.ConditionFalse, batchv1beta1.ReasonPausing,
			fmt.Sprintf("remaining pods: %d", left))
		return
	}
	const message = "the job is paused"
	if !view.IsPaused(r.Status) {
		r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventPaused, "Pause", message)
	}
	r.setCondition(batchv1beta1.ConditionPaused, metav1.ConditionTrue, batchv1beta1.ReasonPaused, message)
}

// isDeletedByPause reports whether a pause deletes the pods of replicas that ran before, or has deleted them.
func (r *renderer) isDeletedByPause() bool {
	f := r.facts
	return r.Job.Spec.RunMode.Pausing() && f.StartTime == nil && f.Counts.Pauses+f.Counts.Evictions > 0
}
