package status

import "tensorstack.dev/jobs/common/plan/view"

// setProgress sets the progress of the training.
func (r *renderer) setProgress() {
	if r.facts.Progress != nil {
		r.Status.Progress = r.facts.Progress.DeepCopy()
	}
	if r.IsWatched() && r.Status.Progress != nil && !view.IsRunning(r.Status) {
		r.Status.Progress.EstimatedCompletionTime = nil // nobody knows when the training goes on
	}
}
