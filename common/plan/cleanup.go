package plan

import (
	"time"

	"tensorstack.dev/jobs/common/policy"
)

// cleanUp deletes the pods of a job whose end is decided, according to its clean-up policy. Once the job has finished
// and no pod changes any more, it updates the tasks of the status. The phase, conditions and counts stay.
func (s *steps) cleanUp() {
	s.endAdmission()
	s.cleanedUp = s.deleteRemainingPods() && s.Status.Finished()
	if s.cleanedUp {
		s.setTasks()
	}
	s.awaitExpiry()
}

// awaitExpiry wakes the controller when the finished job expires.
func (s *steps) awaitExpiry() {
	expiry, ok := s.expiry(s.Status)
	if ok && (s.now.Before(expiry) || !s.job.Status.Finished()) {
		s.wakeAt(expiry) // the end of a job is written before the job is deleted
	}
}

// deleteRemainingPods deletes the pods that the clean-up policy does not keep. It reports whether no replica changes
// any more. After a success the peers of the leader get time to end by themselves, unless they only serve replicas that
// have ended. A replica has ended once its main container has ended, so sidecars that still run get no time.
func (s *steps) deleteRemainingPods() (done bool) {
	done = true
	ended, late, idle := s.podsOfEndedReplicas(), s.latePods(), s.idleServers()
	mayEnd := s.peersMayEnd()
	for name, pod := range s.seen.Pods {
		switch {
		case pod.DeletionTimestamp != nil:
			done = false
		case !policy.CleansUp(s.job.Spec.RunPolicy, pod):
			done = done && (ended[name] || policy.Ended(pod)) // with policy None, a pod can still run
		case !ended[name] && !late[name] && !idle[name] && !policy.Ended(pod) && s.now.Before(mayEnd[name]):
			done = false
			s.wakeUrgentlyAt(mayEnd[name])
		default:
			done = false
			s.CleanUps = append(s.CleanUps, pod)
		}
	}
	sortByName(s.CleanUps)
	return done
}

// peersMayEnd returns the times until which the peers of a succeeded leader can end by themselves, by the names of the
// pods. It returns nil if the job did not succeed.
func (s *steps) peersMayEnd() map[string]time.Time {
	success := successOf(s.Status)
	if success == nil {
		return nil
	}
	grace, seconds := s.job.PeerGrace, s.job.Spec.RunPolicy.PeerGracePeriodSeconds
	if seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	mayEnd := make(map[string]time.Time, len(s.seen.Pods))
	for name := range s.seen.Pods {
		mayEnd[name] = success.LastTransitionTime.Add(grace)
	}
	for _, r := range s.replicas {
		if ofRole := r.member.Role.PeerGrace; seconds == nil && ofRole > grace {
			mayEnd[r.member.Name] = success.LastTransitionTime.Add(ofRole)
		}
	}
	return mayEnd
}

// podsOfEndedReplicas returns the names of the pods whose replicas have ended.
func (s *steps) podsOfEndedReplicas() map[string]bool {
	ended := make(map[string]bool, len(s.replicas))
	for _, r := range s.replicas {
		ended[r.member.Name] = hasEnded(r.outcome.Phase)
	}
	return ended
}

// latePods returns the names of the pods of replicas that had ended before. If such a pod runs, the API server has
// carried out its creation late, after another pod of the replica had ended.
func (s *steps) latePods() map[string]bool {
	late := make(map[string]bool, len(s.replicas))
	for _, r := range s.replicas {
		late[r.member.Name] = r.done
	}
	return late
}

// idleServers returns the names of the replicas that only serve others, if all others have ended or have no pod.
// Otherwise it returns nil.
func (s *steps) idleServers() map[string]bool {
	idle := map[string]bool{}
	for _, r := range s.replicas {
		hasEnded := r.pod == nil || hasEnded(r.outcome.Phase)
		switch {
		case r.member.Role.Serves:
			idle[r.member.Name] = true
		case !hasEnded:
			return nil
		}
	}
	return idle
}
