package decide

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// A job ends in two stages, like a batch/v1 Job. First, its end is decided. The status records the decision before
// anything is deleted, and the decision is never changed. Then the pods end, or are cleaned up. The job finishes when
// none of them can still run, or immediately if the clean-up policy is None.

// end is the last step of a job whose end is decided. It finishes the job if none of its pods can still run, and
// cleans up.
func (s *steps) end() {
	s.Running = false
	if s.mayRun() {
		s.findOverdue()
	} else {
		s.Finishes = true
	}
	s.cleanUp()
}

// mayRun reports whether the job waits for pods that might still run. With the clean-up policy None the job does not
// wait for its pods, because a parameter server can run forever.
func (s *steps) mayRun() bool {
	if keepsPods(s.Job) {
		return false
	}
	mayRun := false
	for _, pod := range s.Seen.Pods {
		switch {
		case policy.MayRun(pod):
			mayRun = true
		case pod.DeletionTimestamp != nil && s.Now.Before(pod.DeletionTimestamp.Time):
			// The containers of the pod have ended, and the kubelet removes the pod within a second. The job waits for the
			// removal, so that one write can report both the end of the job and the end of the pod. If a finalizer keeps the
			// pod, the job waits only until the grace period is over.
			mayRun = true
			s.requeueAt(pod.DeletionTimestamp.Time)
		}
	}
	return mayRun
}

// overdueDelay is how long a job waits for a pod whose time to end is over, before it reports the pod as overdue.
const overdueDelay = time.Minute

// findOverdue sets Overdue to the pods that keep a job from finishing although their time to end is over. For
// example, the node of such a pod is lost, or its deletion is rejected. Pods that end in time are not in Overdue, so
// they cause no status write.
func (s *steps) findOverdue() {
	replicas := s.ByName()
	for name, pod := range s.Seen.Pods {
		due := s.peerMayEnd(replicas[name])
		if due.IsZero() {
			due = s.End.LastTransitionTime.Time
		}
		if pod.DeletionTimestamp != nil {
			due = pod.DeletionTimestamp.Time
		}
		if policy.MayRun(pod) && s.isOverdue(due) {
			s.Overdue = append(s.Overdue, pod)
		}
	}
	sortByName(s.Overdue)
}

// isOverdue reports whether a pod that had to end at the given time is overdue. If not, it requeues the job.
func (s *steps) isOverdue(due time.Time) bool {
	due = due.Add(overdueDelay)
	if s.Now.Before(due) {
		s.requeueAt(due)
		return false
	}
	return true
}

// keepsPods reports whether the clean-up policy keeps running pods.
func keepsPods(job view.Job) bool {
	return job.Spec.RunPolicy.CleanUpPolicy == batchv1beta1.CleanUpPolicyNone
}

// isFinished reports whether the job has finished, now or before.
func (s *steps) isFinished() bool { return s.Finishes || s.Job.Status.Finished() }
