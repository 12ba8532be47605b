package plan

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// begin starts the job, if it has not started.
func (s *steps) begin() {
	s.identify()
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
	//mutant:pods of an earlier attempt stay =>
	s.deleteObsolete()
	s.createMissing()
	s.seekAdmission()
	s.setStatus()
}

// deleteObsolete deletes the pods of earlier attempts, and those that belong to no replica.
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

// deleteAllBut deletes all pods but those of the given names, gracefully and once.
func (s *steps) deleteAllBut(names map[string]bool) {
	for name, pod := range s.seen.Pods {
		if !names[name] && pod.DeletionTimestamp == nil {
			s.Deletes = append(s.Deletes, pod)
		}
	}
	sortByName(s.Deletes)
}

// createMissing creates the pods that are missing, unless their restart is not due. If all replicas are restarted, no
// pod is created before the pods of the earlier attempt are gone, since it could connect to them.
func (s *steps) createMissing() {
	//mutant:replicas start beside pods of an earlier attempt => if false {
	if s.hasPodsOfEarlierJobAttempt() {
		return
	}
	awaited := sync.OnceValue(s.awaitedNames) // usually nothing is missing
	for _, r := range s.replicas {
		if r.pod != nil || r.done {
			continue
		}
		if r.recorded.RestartTime != nil && r.recorded.RestartTime.After(s.now) {
			//mutant:nothing wakes the job for a delayed restart =>
			s.wakeUrgentlyAt(r.recorded.RestartTime.Time)
			continue
		}
		own := s.gang.FQDN(*r.member)
		others := slices.DeleteFunc(slices.Clone(awaited()), func(name string) bool { return name == own })
		pod, err := s.newPod(r, others)
		if err != nil {
			s.Creates = nil
			s.refusal = &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: err}
			return
		}
		s.Creates = append(s.Creates, pod)
	}
}

// newPod returns the pod of a replica, which waits until the given names resolve. An error describes a fault of the
// template.
func (s *steps) newPod(r *replica, awaited []string) (*corev1.Pod, error) {
	template := r.member.Role.Template.DeepCopy()
	how := startOf(s.job.Spec, s.job.Status.Pauses, r.member.Role.Type)
	how.prepare(s.job.MainContainers, template)
	if err := s.job.Wire(s.gang, *r.member, template); err != nil {
		return nil, err
	}
	how.complete(s.job.MainContainers, template)
	return s.buildPod(*r.member, awaited, r.attempt(), template)
}

// awaitedNames returns the host names that must resolve before another replica starts: that of the leader, and those of
// the replicas that every replica connects to. The name of a replica that has ended is not waited for.
func (s *steps) awaitedNames() []string {
	var names []string
	for _, r := range s.replicas {
		isAwaited := r.member.Rank == 0 || r.member.Role.Awaited
		if isAwaited && !r.done && !r.succeeded() {
			names = append(names, s.gang.FQDN(*r.member))
		}
	}
	return names
}
