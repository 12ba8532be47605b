package decide

import "tensorstack.dev/jobs/common/plan/view"

// recordReadings records the progress of the training and the restarts in place, if the next status write for these
// alone is due. It records them earlier if replicas restart or stop, or if the job ends or finishes, because the
// readings might be lost later. It also records them when a stall begins, because the message of the stall names the
// last step. The parameter before is the view before restarts, whose pods have the readings.
func (s *steps) recordReadings(before view.View) {
	was := before.Job.Status
	_, reading := before.LastProgress()
	hasProgress := s.Job.Spec.ReportsProgress && reading != nil && !view.IsSameProgress(was.Progress, reading.Status)
	restarts, added := before.NewRestartsInPlace()
	isNewAttempt := s.Counts.JobAttempt() != view.CountsOf(was).JobAttempt()
	isDue := len(s.Restarts) > 0 || isNewAttempt || s.Stall.Reaction() != "" ||
		s.isDecided() != was.Decided() || s.Finishes || !s.Now.Before(s.Seen.ProgressDue)
	if isDue {
		s.RestartsInPlace, s.AddedInPlace = restarts, added
	}
	if isDue && hasProgress {
		s.Progress = reading.Status.DeepCopy()
	}
	switch {
	case !s.Running:
	case !isDue && (hasProgress || restarts != nil):
		s.requeueAt(s.Seen.ProgressDue)
	default:
		s.requeueAt(view.Later(s.Seen.ProgressDue, s.Now.Add(view.ProgressInterval)))
	}
}
