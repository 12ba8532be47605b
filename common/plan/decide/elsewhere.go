package decide

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// dispatch requests the admission of a job that another cluster runs. Once the job is admitted, Kueue creates a copy
// of the job in the other cluster. Kueue keeps the status of this job the same as the status of the copy, even during
// an eviction of the copy. This controller changes the status only if the user pauses the job, if the job has no
// replicas, or while the job waits for its admission.
func (s *steps) dispatch() {
	switch {
	case s.Job.Status.Finished():
		s.endAdmission()
		s.awaitExpiry()
		return
	case s.Seen.Admission == nil:
		return
	case s.isPausing() && !s.isDecided():
		s.forget()
		s.Action = Pause
		s.pause()
		return
	case len(s.Peers.Members) == 0:
		s.Action = Hold
		s.hold()
		return
	}
	s.follow(s.Seen.Admission.Request(&s.Job, view.Need{
		Roles: s.Roles, Elsewhere: true, Pods: int(s.Job.Status.Replicas), Ready: s.readyElsewhere(),
	}))
	isUnclear := s.Standing.Unknown || s.Refusal != nil
	switch {
	case s.Wait == nil, isUnclear && s.StartTime != nil:
		return
	case s.isDecided(): // the copy is gone, and its end is recorded
		s.Action = End
		s.end()
		return
	}
	s.forget()
	s.Action, s.Running = Queue, false
}

// readyElsewhere counts the replicas of each type that are ready or have ended, as far as the status shows. If the
// job runs, these are all replicas. Otherwise, there are none.
func (s *steps) readyElsewhere() map[string]int32 {
	ready := map[string]int32{}
	for _, role := range s.Roles {
		if view.IsRunning(s.Job.Status) {
			ready[role.Type] = role.Replicas
		}
	}
	return ready
}

// forget discards the status of a copy that is gone. The next copy has a new status.
func (s *steps) forget() {
	if !view.HasRun(s.Job.Status) {
		return
	}
	job := s.Job
	job.Status = batchv1beta1.JobStatus{}
	s.View, _ = observe(job, s.Seen, s.Now)
	s.Forgets, s.Counts, s.StartTime, s.Failures, s.AvoidedNodes, s.End = true, view.Counts{}, nil, nil, nil, nil
}
