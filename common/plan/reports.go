package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// lostPeerWindows is how many windows the controller waits if no failure is reported yet that is not a lost peer.
const lostPeerWindows = 5

// reportsDue returns until when the controller waits for reports, and whether it still waits. It does not wait if the
// root cause is an ignored failure or a deletion, or if no replica runs.
func (v *view) reportsDue() (time.Time, bool) {
	if !slices.ContainsFunc(v.replicas, (*replica).runs) {
		return time.Time{}, false
	}
	root := v.rootCause()
	if root == nil || root.failure.Ignored {
		return time.Time{}, false
	}
	seen := v.now
	c := meta.FindStatusCondition(v.job.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	if c != nil && v.hasUnjudgedFailure() {
		seen = c.LastTransitionTime.Time
	}
	window := v.job.FailureWindow
	if root.failure.FollowsOn() { // from one that is yet to be reported
		window *= lostPeerWindows
	}
	return policy.ReportsDue(seen, v.now, window)
}

// hasUnjudgedFailure reports whether the status records a failure that restarts all and whose root cause is yet to be
// determined.
func (v *view) hasUnjudgedFailure() bool {
	return slices.ContainsFunc(v.replicas, func(r *replica) bool {
		return r.staysFailed() && r.restartsAll(*r.recordedFailure())
	})
}

// awaitReports decides nothing yet. It records the first failure, so that it counts whatever happens to its pod. It
// writes nothing for peers that fail meanwhile.
func (s *steps) awaitReports(due time.Time) {
	s.wakeAtDeadline()
	s.wakeUrgentlyAt(due)
	if s.hasUnjudgedFailure() {
		return
	}
	s.recordsFailure = true
	s.setTasks()
	s.setReplicaFailure()
	// The condition may be True because of an earlier failure.
	meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure).LastTransitionTime = *stored(s.now)
}
