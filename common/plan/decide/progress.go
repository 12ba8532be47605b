package decide

import "tensorstack.dev/jobs/common/plan/view"

// recordProgress records the progress of the training if the next status write for progress alone is due. It records
// the progress earlier if replicas restart or stop, or if the job ends or finishes, because the readings might be
// lost later. It also records the progress when a stall begins, because the message of the stall names the last step.
// The parameter before is the view before restarts, whose pods have the progress.
func (s *steps) recordProgress(before view.View) {
	was := before.Job.Status
	_, reading := before.LastProgress()
	isNew := reading != nil && !view.IsSameProgress(was.Progress, reading.Status)
	isNewAttempt := s.Counts.JobAttempt() != view.CountsOf(was).JobAttempt()
	isWritten := len(s.Restarts) > 0 || isNewAttempt || s.Stall.Reaction() != "" ||
		s.isDecided() != was.Decided() || s.Finishes
	if isNew && (isWritten || !s.Now.Before(s.Seen.ProgressDue)) {
		s.Progress = reading.Status.DeepCopy()
		isNew = false
	}
	switch {
	case !s.Running:
	case isNew:
		s.requeueAt(s.Seen.ProgressDue)
	default:
		s.requeueAt(view.Later(s.Seen.ProgressDue, s.Now.Add(view.ProgressInterval)))
	}
}
