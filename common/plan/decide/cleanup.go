package decide

import (
	"slices"
	"time"

	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// cleanUp deletes the pods of a job whose end is decided, according to its clean-up policy. Once the job has finished
// and no replica changes anymore, the tasks of the status are final. The clean-up does not change the phase, the
// conditions or the counts.
func (s *steps) cleanUp() {
	s.endAdmission()
	s.CleanedUp = s.deleteRemainingPods() && s.isFinished()
	s.awaitExpiry()
}

// awaitExpiry requeues the job at the time when it expires. A job that finishes now is requeued even if this time has
// passed, because its end must be written before the job is deleted.
func (s *steps) awaitExpiry() {
	completion := s.Job.Status.CompletionTime
	if s.Finishes {
		completion = view.Stored(s.Now)
	}
	expiry := s.expiry(completion)
	if s.Now.Before(expiry) || !s.Job.Status.Finished() {
		s.requeueAt(expiry)
	}
}

// deleteRemainingPods deletes the pods that the clean-up policy does not keep. The result done is true if no replica
// changes anymore. After a success, the peers of the leader get time to end by themselves, unless they only serve
// replicas that have ended. A replica has ended once its main container has ended, so sidecars that still run get no
// time.
func (s *steps) deleteRemainingPods() (done bool) {
	done = true
	replicas, serversAreIdle := s.ByName(), s.serversAreIdle()
	for name, pod := range s.Seen.Pods {
		r := replicas[name]
		hasEnded := policy.Ended(pod) || r != nil && view.HasEnded(r.Outcome.Phase)
		// If the status already records the end of a replica that has a pod, the API server has carried out the creation of
		// the pod late, after another pod of the replica had ended.
		isUseless := r != nil && (r.Done || serversAreIdle)
		mayEnd := s.peerMayEnd(r)
		switch {
		case pod.DeletionTimestamp != nil:
			done = false
		case !policy.CleansUp(s.Job.Spec.RunPolicy, pod):
			if !hasEnded { // with policy None, a pod can still run
				done = false
			}
		case !hasEnded && !isUseless && s.Now.Before(mayEnd):
			done = false
			s.requeueUrgentlyAt(mayEnd)
		default:
			done = false
			s.CleanUps = append(s.CleanUps, pod)
		}
	}
	sortByName(s.CleanUps)
	return done
}

// peerMayEnd returns the time until which the pod of a replica can end by itself after the success of the leader. The
// replica is nil for a pod of no current replica. The result is zero if the job did not succeed.
func (s *steps) peerMayEnd(r *view.Replica) time.Time {
	if !view.IsSuccess(s.End) {
		return time.Time{}
	}
	grace := s.Job.PeerGrace
	if seconds := s.Job.Spec.RunPolicy.PeerGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	} else if r != nil {
		grace = max(grace, r.Member.Role.PeerGrace)
	}
	return s.End.LastTransitionTime.Add(grace)
}

// serversAreIdle reports whether all replicas have ended or have no pod, except those that only serve other replicas.
// So only the pods of the latter can still run.
func (s *steps) serversAreIdle() bool {
	return !slices.ContainsFunc(s.Replicas, func(r *view.Replica) bool {
		return !r.Member.Role.Serves && r.Pod != nil && !view.HasEnded(r.Outcome.Phase)
	})
}
