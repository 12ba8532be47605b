package decide

import "tensorstack.dev/jobs/common/plan/view"

// isPausedBeforeStart reports whether the user has requested a pause and the job has not started, or has not started
// again after its pods were stopped.
func isPausedBeforeStart(v view.View) bool {
	// The status can lack the start, because its first write is deferred, or because a write came from a cache that
	// lacked the pods.
	hasStarted := v.Job.Status.StartTime != nil || !view.HasBegunPause(v.Job.Status) && v.HasPodsOfAttempt()
	return v.Job.Spec.RunMode.Pausing() && !hasStarted
}

// isPausing reports whether the user requests a pause.
func (s *steps) isPausing() bool { return s.Job.Spec.RunMode.Pausing() }

// hasStopped reports whether the user requests a pause and no attempt runs.
func (s *steps) hasStopped() bool { return s.isPausing() && s.StartTime == nil }

// stop begins the pause of a job that has started. It begins a new attempt, so that all pods belong to an earlier one.
// Their failures are ignored, since deleting one pod makes its peers fail. The status is written before the first pod
// is deleted.
func (s *steps) stop() {
	s.Counts.Pauses++
	s.StartTime = nil
	s.View = s.InNewAttempt(s.Counts.JobAttempt(), nil)
}

// pause deletes the pods of a job that the user pauses. The job is paused when the last pod is gone.
func (s *steps) pause() {
	s.Running = false
	s.deleteAllBut(nil)
	s.endAdmission()
}
