package decide

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// lostPeerWindows is the factor by which FailureWindow is multiplied if all reported failures are lost connections to
// a peer. In this case, the kubelet of that peer has not reported the peer's failure yet.
const lostPeerWindows = 5

// rootCauseDue returns when the controller stops waiting for failures of the peers, and whether it still waits. It does
// not wait if the root cause is an ignored failure, a deletion or a stall, if the supervisors of all replicas know that
// it was the first failure, or if no replica runs.
func (s *steps) rootCauseDue() (time.Time, bool) {
	if !slices.ContainsFunc(s.Replicas, (*view.Replica).Runs) {
		return time.Time{}, false
	}
	root := s.RootCause()
	if root == nil || root.Failure.Ignored || root.IsStall() || root.Failure.IsFirst() {
		return time.Time{}, false
	}
	seen := s.Now
	c := meta.FindStatusCondition(s.Job.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	if c != nil && s.HasUnjudgedFailure() {
		seen = c.LastTransitionTime.Time
	}
	window := s.Job.FailureWindow
	if root.Failure.FollowsOn() { // the root cause is not reported yet
		window *= lostPeerWindows
	}
	return policy.RootCauseDue(seen, s.Now, window)
}

// awaitRootCause postpones the decision about a failure. It records the first failure, so that the failure counts
// whatever happens to its pod. A peer that fails during the wait causes no status write.
func (s *steps) awaitRootCause(due time.Time) {
	s.requeueAt(s.Deadline())
	s.requeueUrgentlyAt(due)
	if s.HasUnjudgedFailure() {
		return
	}
	s.RecordsFailure = true
}
