package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// IsHeld reports whether a pod has the finalizer of leaders.
func IsHeld(pod metav1.Object) bool {
	return slices.Contains(pod.GetFinalizers(), batchv1beta1.FinalizerLeader)
}

// hasHeldPods reports whether a pod of the job is held.
func (v *view) hasHeldPods() bool {
	for _, pod := range v.seen.Pods {
		if IsHeld(pod) {
			return true
		}
	}
	return false
}

// release releases the held pods whose end no longer matters. It is the last step, because it needs the final status of
// the decision and the pods that are deleted by force.
func (s *steps) release() {
	for _, pod := range s.seen.Pods {
		if IsHeld(pod) && (!s.awaitsEnd(pod) || slices.Contains(s.ForceDeletes, pod)) {
			s.Releases = append(s.Releases, pod)
		}
	}
	sortByName(s.Releases)
}

// awaitsEnd reports whether the job still depends on how a pod ends. It depends on the pod of the leader until the end
// is accounted for. A failure in the tasks of the status is not always accounted for: the job can still be waiting for
// the reports of peers.
func (s *steps) awaitsEnd(pod *corev1.Pod) bool {
	isPaused := s.job.Spec.RunMode.Pausing() && s.Status.StartTime == nil
	switch {
	case s.job.Deleting || isPaused || s.Status.Decided():
		return false
	case len(s.replicas) == 0: // the job is held, and its pods stay as they are
		return pod.DeletionTimestamp == nil
	}
	leader := s.replicas[0]
	switch {
	case pod != leader.pod || leader.obsolete():
		return false
	case leader.outcome.Terminating && leader.failure() == nil: // the replica gets a new pod, however this one ends
		return false
	default:
		return true
	}
}
