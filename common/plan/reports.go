package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// lostPeerWindows is how many failure windows the controller waits while every reported failure is only a lost peer.
const lostPeerWindows = 5

// reportsDue returns when the wait for the reports of peers ends, and whether the controller still waits. It does not
// wait if the root cause is an ignored failure, a deletion or a stall, or if no replica runs.
func (v *view) reportsDue() (time.Time, bool) {
	if !slices.ContainsFunc(v.replicas, (*replica).runs) {
		return time.Time{}, false
	}
	root := v.rootCause()
	if root == nil || root.failure.Ignored || root.isStall() {
		return time.Time{}, false
	}
	seen := v.now
	c := meta.FindStatusCondition(v.job.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	if c != nil && v.hasUnjudgedFailure() {
		seen = c.LastTransitionTime.Time
	}
	window := v.job.FailureWindow
	if root.failure.FollowsOn() { // the root cause is not reported yet
		window *= lostPeerWindows
	}
	return policy.ReportsDue(seen, v.now, window)
}

// hasUnjudgedFailure reports whether the status records a failure that restarts all replicas, but whose root cause has
// not been determined yet.
func (v *view) hasUnjudgedFailure() bool {
	return slices.ContainsFunc(v.replicas, (*replica).isUnjudged)
}

// awaitReports postpones the decision about a failure. It records the first failure, so that the failure counts
// whatever happens to its pod. It writes nothing for peers that fail during the wait.
func (s *steps) awaitReports(due time.Time) {
	s.wakeAtDeadline()
	s.wakeUrgentlyAt(due)
	if s.hasUnjudgedFailure() {
		return
	}
	s.recordsFailure = true
	s.setTasks()
	s.setReplicaFailure()
	// The condition can already be True because of an earlier failure.
	meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure).LastTransitionTime = *stored(s.now)
}
