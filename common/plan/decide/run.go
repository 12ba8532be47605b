package decide

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// begin sets the start time of a job that has not started, unless the job waits for its admission.
func (s *steps) begin() {
	if s.StartTime == nil && !s.WaitsForStart() {
		s.StartTime = s.StartedAt()
	}
}

// run creates the missing pods and deletes the pods of earlier attempts.
func (s *steps) run() {
	s.requeueAt(s.Deadline())
	s.requeueAt(s.giveBackDue())
	s.CreateService = !s.Seen.HasService
	s.EnsureNetworkPolicy = s.Seen.NeedsNetworkPolicy
	s.deleteObsolete()
	s.allowNodes()
	s.createMissing()
	s.seekAdmission()
	s.Together = min(s.neededTogether(), len(s.Creates))
	s.awaitReplicas()
}

// awaitReplicas determines whether the job runs, whether it has recovered from a failure, and when to requeue it
// because of replicas that do not run.
func (s *steps) awaitReplicas() {
	waiting := 0
	for _, r := range s.Replicas {
		if !r.Waits() {
			continue
		}
		waiting++
		if r.IsReplaced() && r.Outcome.Terminating && s.isOverdue(r.Pod.DeletionTimestamp.Time) {
			s.Overdue = append(s.Overdue, r.Pod)
		}
		if !r.IsReplaced() && r.Outcome.Phase == batchv1beta1.ReplicaPhasePending {
			if due := s.PrepareDue(r.Pod); s.Now.Before(due) {
				s.requeueAt(due)
			}
		}
	}
	sortByName(s.Overdue)
	s.KeepsWaiting = waiting > 0 && s.keepsWaiting()
	s.Running = s.trains(waiting) && !s.KeepsWaiting
	s.Recovered = view.HasFailed(s.Job.Status) && s.hasRecovered()
}

// keepsWaiting reports whether a job keeps the reason in its status, because its admission is unknown for a short
// time. The reason must be about the present spec. The result is also true if pods exist while the first status write
// is deferred. In this case, package status sets the reason that the job keeps.
func (s *steps) keepsWaiting() bool {
	if !s.Standing.Unknown {
		return false
	}
	running := meta.FindStatusCondition(s.Job.Status.Conditions, batchv1beta1.ConditionRunning)
	return s.HasUnreportedPods() || running != nil && running.Status == metav1.ConditionFalse &&
		running.ObservedGeneration == s.Job.Generation
}

// hasRecovered reports whether the job runs again, including every replica that was restarted without its peers. In
// an elastic job that trains, the other replicas can still wait, even if all replicas were restarted together.
func (s *steps) hasRecovered() bool {
	trains := s.trainsWithLess()
	return !slices.ContainsFunc(s.Replicas, func(r *view.Replica) bool {
		mayWait := trains && r.Recorded.Attempt == 0
		return r.StaysFailed() || r.Waits() && !mayWait
	})
}

// deleteObsolete deletes the pods of earlier attempts, and pods that belong to no replica.
func (s *steps) deleteObsolete() {
	if s.HasOnlyCurrentPods() {
		return
	}
	current := map[string]bool{}
	for _, r := range s.Replicas {
		if !r.IsObsolete() {
			current[r.Member.Name] = true
		}
	}
	s.deleteAllBut(current)
}

// deleteAllBut deletes all pods except those with the given names. It deletes gracefully, and each pod only once.
func (s *steps) deleteAllBut(names map[string]bool) {
	for name, pod := range s.Seen.Pods {
		if !names[name] && pod.DeletionTimestamp == nil {
			s.Deletes = append(s.Deletes, pod)
		}
	}
	sortByName(s.Deletes)
}
