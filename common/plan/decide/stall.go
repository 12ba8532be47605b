package decide

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// watchStall sets Stall if the state of a stall of the training changes. The parameter before is the view before
// restarts.
func (s *steps) watchStall(before view.View) {
	check, unread := before.CheckStall(), before.Unread()
	was := metav1.ConditionFalse
	if c := meta.FindStatusCondition(s.Job.Status.Conditions, batchv1beta1.ConditionStalled); c != nil {
		was = c.Status
	}
	switch {
	case s.Restarted.IsStall() || s.EndedBy.IsStall():
		s.Stall = Stall{Change: StallRestarts, Message: check.Message}
	case was != metav1.ConditionFalse && (s.StartTime == nil || s.isDecided()):
		if !before.Job.Status.Decided() {
			s.Stall = Stall{Change: StallStops}
		}
	case s.isDecided():
	case check.Stalled != nil && was != metav1.ConditionTrue:
		s.Stall = Stall{Change: StallBegins, Replica: check.Stalled.Member.Name, Message: check.Message}
	case check.IsOnTime && was == metav1.ConditionTrue:
		s.Stall = Stall{Change: StallEnds}
	case unread != "" && was == metav1.ConditionFalse:
		s.Stall = Stall{Change: StallUnknown, Message: unread}
	case unread == "" && was == metav1.ConditionUnknown && (before.IsRead() || !before.HasStallDeadline()):
		s.Stall = Stall{Change: StallKnown}
	}
	if !check.Due.IsZero() && s.Running {
		s.requeueAt(view.Later(check.Due, s.Now.Add(view.ReadingInterval)))
	}
}
