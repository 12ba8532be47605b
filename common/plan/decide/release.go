package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
)

// release selects the pods that lose the finalizer of leaders: pods whose end no longer matters, and pods that are
// deleted by force. It runs after the steps of the action, because these steps can end or pause the job, and select
// the pods to delete by force.
func (s *steps) release() {
	for _, pod := range s.Seen.Pods {
		if view.IsHeld(pod) && (!s.awaitsEnd(pod) || slices.Contains(s.ForceDeletes, pod)) {
			s.Releases = append(s.Releases, pod)
		}
	}
	sortByName(s.Releases)
}

// awaitsEnd reports whether the job still depends on how a pod ends. It depends on the pod of the leader until the
// job has reacted to the end of that pod. The tasks of the status can show a failure of the leader to which the job
// has not reacted yet, because the controller still waits for failures of the peers.
func (s *steps) awaitsEnd(pod *corev1.Pod) bool {
	switch {
	case s.Job.Deleting || s.hasStopped() || s.isDecided():
		return false
	case len(s.Replicas) == 0: // the action is Hold, and the pods stay as they are
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
