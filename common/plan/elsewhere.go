package plan

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// dispatch requests the admission of a job that another cluster runs. Once it is admitted, Kueue creates a copy of the
// job in the other cluster, and copies its status here, also while it evicts the copy. The controller writes the status
// only while the job waits for its admission.
func (s *steps) dispatch() {
	switch {
	case s.Status.Finished():
		s.endAdmission()
		s.awaitExpiry()
		return
	case s.seen.Admission == nil:
		return
	case s.job.Spec.RunMode.Pausing() && !s.Status.Decided():
		s.forget()
		s.pause()
		return
	case len(s.gang.Members) == 0:
		s.hold()
		return
	}
	s.follow(s.seen.Admission.Request(&s.job, Need{
		Roles: s.roles, Elsewhere: true, Pods: int(s.Status.Replicas), Ready: s.readyElsewhere(),
	}))
	isUnclear := s.isAdmissionUnknown() || s.refusal != nil
	switch {
	case s.waitsFor == nil, isUnclear && s.Status.StartTime != nil:
		return
	case s.Status.Decided(): // the copy is gone, and its end is recorded
		s.end()
		return
	}
	s.forget()
	s.identify()
	s.resume()
	s.setTasks()
	s.setInitialized()
	s.setWaiting(s.waitsFor.Reason, s.waitsFor.Message)
	s.setReason(s.waitsFor.Reason)
}

// readyElsewhere counts the replicas of each type that are ready or have ended, as far as the status shows it.
func (s *steps) readyElsewhere() map[string]int32 {
	ready := map[string]int32{}
	for _, role := range s.roles {
		if isRunning(s.Status) {
			ready[role.Type] = role.Replicas
		}
	}
	return ready
}

// forget discards the status of a copy that is gone. The next copy has a new status.
func (s *steps) forget() {
	if !hasRun(s.Status) {
		return
	}
	s.Status, s.job.Status = batchv1beta1.JobStatus{}, batchv1beta1.JobStatus{}
	s.view = interpret(s.job, s.seen, s.now)
}

// hasRun reports whether a job has started, now or before, as its status shows.
func hasRun(status batchv1beta1.JobStatus) bool {
	return status.StartTime != nil || jobAttempt(status)+status.BackoffCount > 0
}
