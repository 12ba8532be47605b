package decide

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// seekAdmission requests the admission that the job needs. Pods that are not admitted yet are removed from Creates.
// New pods that are admitted become members of the PodGroup or Workload. Existing pods are kept.
func (s *steps) seekAdmission() {
	admission := s.Seen.Admission
	if admission == nil {
		return
	}
	answer := admission.Request(&s.Job, view.Need{
		Roles: s.Roles, Done: s.doneByRole(), Spent: s.spentByRole(), Scheduling: s.needsScheduling(),
		Pods: len(s.Seen.Pods), Ready: s.readyByRole(),
	})
	s.follow(answer)
	if s.Refusal != nil || s.Wait != nil && answer.Most == nil {
		s.Creates = nil
	}
	if answer.Most != nil {
		s.limitCreations(answer.Most)
	}
	if len(s.Creates) > 0 {
		admission.Join(&s.Job, s.Creates, s.Replicas[0].Member.Name, s.presentPods())
	}
}

// limitCreations removes creations, so that no type has more replicas than are admitted. A replica that is being
// replaced, or waits for its restart, counts as one of the admitted replicas.
func (s *steps) limitCreations(most map[string]int32) {
	count := s.countByRole(func(r *view.Replica) bool {
		return r.Done || r.Pod != nil || r.Recorded.RestartTime != nil && r.Recorded.RestartTime.After(s.Now)
	})
	s.Creates = slices.DeleteFunc(s.Creates, func(c view.Creation) bool {
		count[c.Type]++
		return count[c.Type] > most[c.Type]
	})
}

// endAdmission releases the admitted resources of a job that needs no more pods. It reports the end of the job to the
// admission only when no pod can run anymore. With cleanUpPolicy None, pods of a finished job can still run.
func (s *steps) endAdmission() {
	if s.Seen.Admission == nil {
		return
	}
	rest := view.Rest{Pods: len(s.Seen.Pods)}
	if s.isFinished() && !slices.ContainsFunc(slices.Collect(maps.Values(s.Seen.Pods)), policy.MayRun) {
		rest.End = s.End
	}
	s.follow(s.Seen.Admission.Withdraw(&s.Job, rest))
}

// follow adds the answer of the admission to the facts: its change, its wait, its problem and its retry.
func (s *steps) follow(answer view.Answer) {
	s.Admission = answer.Change
	s.Wait = answer.Wait
	s.Refusal = cmp.Or(s.Refusal, answer.Problem)
	if answer.RetryAfter > 0 {
		s.requeueAt(s.Now.Add(answer.RetryAfter))
	}
}

// doneByRole counts the replicas of each type that have ended and are not restarted.
func (s *steps) doneByRole() map[string]int32 { return s.countByRole((*view.Replica).HasDonePart) }

// spentByRole counts the replicas of each type that never run again, unless the user changes the policies of the job.
// Such a replica has succeeded and has no pod that can still run, and no failure of a peer restarts it. A failed
// replica does not count, because it runs again if the user raises backoffLimit.
func (s *steps) spentByRole() map[string]int32 {
	restartsAlone := !s.isElastic() && !policy.RestartsTogether(s.Job.Spec)
	return s.countByRole(func(r *view.Replica) bool {
		return restartsAlone && r.Succeeded() && (r.Pod == nil || !policy.MayRun(r.Pod))
	})
}

// readyByRole counts the replicas of each type that are ready, or have ended and are not restarted. It counts all
// replicas of an elastic job that trains.
func (s *steps) readyByRole() map[string]int32 {
	trains := s.trainsWithLess()
	return s.countByRole(func(r *view.Replica) bool {
		return trains || r.HasDonePart() || r.IsCurrent() && r.Outcome.Ready
	})
}

// countByRole counts, by type, the replicas that match.
func (s *steps) countByRole(matches func(*view.Replica) bool) map[string]int32 {
	count := map[string]int32{}
	for _, r := range s.Replicas {
		if matches(r) {
			count[r.Member.Role.Type]++
		}
	}
	return count
}

// needsScheduling reports whether a replica that has not ended still needs a node, for its current pod or for the
// next one.
func (s *steps) needsScheduling() bool {
	return slices.ContainsFunc(s.Replicas, func(r *view.Replica) bool {
		hasNode := r.IsCurrent() &&
			(r.Pod.Spec.NodeName != "" || r.Outcome.Phase != batchv1beta1.ReplicaPhasePending)
		return !r.HasDonePart() && !hasNode
	})
}

// presentPods returns the pods of the current attempt that have not ended.
func (s *steps) presentPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, r := range s.Replicas {
		if r.IsCurrent() && !r.HasDonePart() {
			pods = append(pods, r.Pod)
		}
	}
	return pods
}
