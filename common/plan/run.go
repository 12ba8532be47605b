package plan

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// begin starts the job, if it has not started.
func (s *steps) begin() {
	s.identify()
	if s.Status.StartTime == nil {
		s.resume()
		if !s.waitsForStart() {
			s.Status.StartTime = s.startTime()
		}
	}
	if s.hasUnreportedPods() {
		// The first status write was deferred, so this status must include its conditions.
		s.accept(accepted)
		s.setWaiting(batchv1beta1.ReasonPending, "the replicas were starting")
		s.Status.Reason = batchv1beta1.ReasonPending
	}
}

// wakeAtDeadline requeues the job at its deadline, if it has one.
func (s *steps) wakeAtDeadline() {
	if deadline, ok := s.deadline(); ok {
		s.wakeAt(deadline)
	}
}

// run creates the missing pods and deletes the pods of earlier attempts.
func (s *steps) run() {
	s.wakeAtDeadline()
	s.wakeToGiveBack()
	s.CreateService = !s.seen.HasService
	s.EnsureNetworkPolicy = s.seen.NeedsNetworkPolicy
	s.deleteObsolete()
	s.allowNodes()
	s.createMissing()
	s.seekAdmission()
	s.Together = min(s.neededTogether(), len(s.Creates))
	s.setStatus()
}

// deleteObsolete deletes the pods of earlier attempts, and pods that belong to no replica.
func (s *steps) deleteObsolete() {
	if s.hasOnlyCurrentPods() {
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

// deleteAllBut deletes all pods except those with the given names. It deletes gracefully, and each pod only once.
func (s *steps) deleteAllBut(names map[string]bool) {
	for name, pod := range s.seen.Pods {
		if !names[name] && pod.DeletionTimestamp == nil {
			s.Deletes = append(s.Deletes, pod)
		}
	}
	sortByName(s.Deletes)
}
