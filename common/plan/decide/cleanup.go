package decide

import (
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
	expiry, _ := s.expiry(completion) // zero if the job never expires
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
	ended, late, idle := s.podsOfEndedReplicas(), s.latePods(), s.idleServers()
	mayEnd := s.peersMayEnd()
	for name, pod := range s.Seen.Pods {
		switch {
		case pod.DeletionTimestamp != nil:
			done = false
		case !policy.CleansUp(s.Job.Spec.RunPolicy, pod):
			done = done && (ended[name] || policy.Ended(pod)) // with policy None, a pod can still run
		case !ended[name] && !late[name] && !idle[name] && !policy.Ended(pod) && s.Now.Before(mayEnd[name]):
			done = false
			s.requeueUrgentlyAt(mayEnd[name])
		default:
			done = false
			s.CleanUps = append(s.CleanUps, pod)
		}
	}
	sortByName(s.CleanUps)
	return done
}

// peersMayEnd maps the name of each pod to the time until which the pod can end by itself after the success of the
// leader. It returns nil if the job did not succeed.
func (s *steps) peersMayEnd() map[string]time.Time {
	if !view.IsSuccess(s.End) {
		return nil
	}
	decided := s.End.LastTransitionTime
	grace, seconds := s.Job.PeerGrace, s.Job.Spec.RunPolicy.PeerGracePeriodSeconds
	if seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	mayEnd := make(map[string]time.Time, len(s.Seen.Pods))
	for name := range s.Seen.Pods {
		mayEnd[name] = decided.Add(grace)
	}
	for _, r := range s.Replicas {
		if seconds == nil {
			mayEnd[r.Member.Name] = decided.Add(max(grace, r.Member.Role.PeerGrace))
		}
	}
	return mayEnd
}

// podsOfEndedReplicas returns the names of the pods whose replicas have ended.
func (s *steps) podsOfEndedReplicas() map[string]bool {
	ended := make(map[string]bool, len(s.Replicas))
	for _, r := range s.Replicas {
		ended[r.Member.Name] = view.HasEnded(r.Outcome.Phase)
	}
	return ended
}

// latePods returns the names of the replicas whose end the status already records. If such a replica has a pod that
// runs, the API server has carried out the creation of the pod late, after another pod of the replica had ended.
func (s *steps) latePods() map[string]bool {
	late := make(map[string]bool, len(s.Replicas))
	for _, r := range s.Replicas {
		late[r.Member.Name] = r.Done
	}
	return late
}

// idleServers returns the names of the replicas that only serve other replicas. It returns nil if one of these other
// replicas has a pod and has not ended.
func (s *steps) idleServers() map[string]bool {
	idle := map[string]bool{}
	for _, r := range s.Replicas {
		hasEnded := r.Pod == nil || view.HasEnded(r.Outcome.Phase)
		switch {
		case r.Member.Role.Serves:
			idle[r.Member.Name] = true
		case !hasEnded:
			return nil
		}
	}
	return idle
}
