package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// reportsDue returns when the root cause of a failure that restarts all can be determined, and whether that is yet to
// come. A replica that was taken away is the root cause for certain, and replicas that have ended report nothing more.
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
	if c != nil && c.Status == metav1.ConditionTrue && v.awaitsReports() {
		seen = c.LastTransitionTime.Time
	}
	return policy.ReportsDue(seen, v.now, v.job.FailureWindow)
}

// awaitsReports reports whether the status records a failure that restarts all and whose root cause is yet to be
// determined.
func (v *view) awaitsReports() bool {
	return slices.ContainsFunc(v.replicas, func(r *replica) bool {
		return r.staysFailed() && r.restartsAll(*recordedFailure(r.recorded))
	})
}

// awaitReports decides nothing yet. It records the first failure, so that it counts whatever happens to its pod. The
// peers, of which there may be many, are looked at when their time is over.
func (s *steps) awaitReports(due time.Time) {
	s.wakeAtDeadline()
	s.wakeUrgentlyAt(due)
	if s.awaitsReports() {
		return
	}
	s.recordsFailure = true
	s.setTasks()
	s.setReplicaFailure()
	// The condition may be True because of an earlier failure.
	meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure).LastTransitionTime = *stored(s.now)
}
