package decide

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// A job ends in two stages, like a batch/v1 Job. First, its end is decided. The status records the decision before
// anything is deleted, and the decision is never changed. Then the pods end, or are cleaned up. The job finishes when
// none of them runs.

// end finishes a job whose end is decided if none of its pods can still run. It also cleans up.
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
			// The pod has ended, and the kubelet removes it within a second. So one write can report both the end of
			// the job and the end of the pod. If a finalizer keeps the pod, the job does not wait longer than the grace
			// period.
			mayRun = true
			s.wakeAt(pod.DeletionTimestamp.Time)
		}
	}
	return mayRun
}

// overdueDelay is how long a pod can exceed its time to end before the job reports that it waits for the pod.
const overdueDelay = time.Minute

// findOverdue finds the pods that keep a job from finishing although their time to end is over. Either their node is
// lost, or their deletion is rejected. If the pods of a job end in time, no status is written for them.
func (s *steps) findOverdue() {
	mayEnd := s.peersMayEnd()
	for name, pod := range s.Seen.Pods {
		due := mayEnd[name]
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
		s.wakeAt(due)
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
