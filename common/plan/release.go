package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// IsHeld reports whether a pod carries the finalizer of leaders.
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

// release releases the pods that are held and whose end no longer matters. It is the last step, so that it knows what
// the status says once it is written, and which pods are deleted by force.
func (s *steps) release() {
	for _, pod := range s.seen.Pods {
		if IsHeld(pod) && (!s.awaitsEnd(pod) || slices.Contains(s.ForceDeletes, pod)) {
			s.Releases = append(s.Releases, pod)
		}
	}
	sortByName(s.Releases)
}

// awaitsEnd reports whether the job still depends on how a pod ends: that of its leader, until the end is accounted
// for. An end that only the tasks of the status record may not be: a failure waits there for the reports of peers.
func (s *steps) awaitsEnd(pod *corev1.Pod) bool {
	isPaused := s.job.Spec.RunMode.Pausing() && s.Status.StartTime == nil
	switch {
	//mutant:a job that ends keeps its leader => case s.job.Deleting || isPaused:
	case s.job.Deleting || isPaused || s.Status.Decided():
		return false
	case len(s.replicas) == 0: // nothing is to run now, and the pods stay as they are
		return pod.DeletionTimestamp == nil
	}
	leader := s.replicas[0]
	switch {
	//mutant:the leader of an earlier attempt is held for ever => case pod != leader.pod:
	case pod != leader.pod || leader.obsolete():
		return false
	//mutant:a leader that somebody deleted is held for ever => case false:
	case leader.outcome.Terminating && leader.failure() == nil: // the replica is created again, however the pod ends
		return false
	default:
		return true
	}
}
