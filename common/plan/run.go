package plan

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// begin starts the job, if it has not started.
func (s *steps) begin() {
	s.identify()
	//equivalent:always s.Status.StartTime == nil => a job that has started is not paused, and keeps its startTime
	if s.Status.StartTime == nil {
		s.resume()
		s.Status.StartTime = s.startTime()
	}
	//mutant:a job that ends before its first status was never accepted => if false {
	if s.hasUnreportedPods() {
		// The first status was deferred. This one must include what that would have reported.
		s.accept(accepted)
		s.setWaiting(batchv1beta1.ReasonPending, "the replicas were on their way")
		s.Status.Reason = batchv1beta1.ReasonPending
	}
}

// wakeAtDeadline has the job looked at again at its deadline, if it has one.
func (s *steps) wakeAtDeadline() {
	if deadline, ok := s.deadline(); ok {
		//mutant:nothing wakes the job for its deadline => _ = deadline
		s.wakeAt(deadline)
	}
}

// run has the replicas created that are missing, and the pods of earlier attempts deleted.
func (s *steps) run() {
	s.wakeAtDeadline()
	s.CreateService = !s.seen.HasService
	s.EnsureNetworkPolicy = s.seen.NeedsNetworkPolicy
	//mutant:pods of an earlier attempt stay =>
	s.deleteObsolete()
	s.createMissing()
	s.seekAdmission()
	s.setStatus()
}

// deleteObsolete deletes the pods of earlier attempts, and those that belong to no replica.
func (s *steps) deleteObsolete() {
	//equivalent:never s.hasOnlyCurrentPods() => what follows then deletes nothing, and takes longer
	if s.hasOnlyCurrentPods() {
		//equivalent:without return => as above
		return
	}
	current := map[string]bool{}
	for _, r := range s.replicas {
		if !r.obsolete() {
			current[r.member.Name] = true
		}
	}
	s.deleteAllBut(current)
}

// deleteAllBut deletes all pods but those of the given names, gracefully and once.
func (s *steps) deleteAllBut(names map[string]bool) {
	for name, pod := range s.seen.Pods {
		if !names[name] && pod.DeletionTimestamp == nil {
			s.Deletes = append(s.Deletes, pod)
		}
	}
	sortByName(s.Deletes)
}
