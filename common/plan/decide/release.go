package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
)

// hasHeldPods reports whether a pod of the job is held.
func (s *steps) hasHeldPods() bool {
	for _, pod := range s.Seen.Pods {
		if view.IsHeld(pod) {
			return true
		}
	}
	return false
}

// release releases the held pods whose end no longer matters. It follows the steps of the action, because it needs to
// know whether they end or pause the job, and which pods they delete by force.
func (s *steps) release() {
	for _, pod := range s.Seen.Pods {
		if view.IsHeld(pod) && (!s.awaitsEnd(pod) || slices.Contains(s.ForceDeletes, pod)) {
			s.Releases = append(s.Releases, pod)
		}
	}
	sortByName(s.Releases)
}

// awaitsEnd reports whether the job still depends on how a pod ends. It depends on the pod of the leader until the end
// is accounted for. A failure in the tasks of the status is not always accounted for: the job can still be waiting for
// the reports of peers.
func (s *steps) awaitsEnd(pod *corev1.Pod) bool {
	switch {
	case s.Job.Deleting || s.hasStopped() || s.isDecided():
		return false
	case len(s.Replicas) == 0: // the job is held, and its pods stay as they are
		return pod.DeletionTimestamp == nil
	}
	leader := s.Replicas[0]
	switch {
	case pod != leader.Pod || leader.IsObsolete():
		return false
	case leader.Outcome.Terminating && leader.Failure() == nil: // the replica gets a new pod, however this one ends
		return false
	default:
		return true
	}
}
