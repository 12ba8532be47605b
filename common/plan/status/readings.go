package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// setProgress sets the progress of the training.
func (r *renderer) setProgress() {
	if r.facts.Progress != nil {
		r.Status.Progress = r.facts.Progress.DeepCopy()
	}
	if r.Job.IsFollowed() && r.Status.Progress != nil && !view.IsRunning(r.Status) {
		r.Status.Progress.EstimatedCompletionTime = nil // nobody knows when the training goes on
	}
}

// setRestartsInPlace sets the restarts in place, and announces the new ones with one event.
func (r *renderer) setRestartsInPlace() {
	restarts := r.facts.RestartsInPlace
	if restarts == nil {
		return
	}
	r.Status.RestartsInPlace = restarts.DeepCopy()
	message, because := "restarted the processes in place", ": "
	if n := r.facts.AddedInPlace; n > 1 {
		message += fmt.Sprintf(" %d times", n)
		because = ", the last time because "
	}
	if len(restarts.Last) > 0 {
		message += because + restarts.Last[0].String()
	}
	r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestartedInPlace, "Observe", message,
		"restarts", r.facts.AddedInPlace)
}
