package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// A job ends in two stages, like a batch/v1 Job. First, its end is decided. The status records the decision before
// anything is deleted, and the decision is never changed. Then the pods end, or are cleaned up. The job finishes when
// none of them runs.

// end finishes a job whose end is decided if none of its pods can still run. It also cleans up.
func (s *steps) end() {
	if s.mayRun() {
		s.reportOverdue()
	} else {
		s.finish()
	}
	s.cleanUp()
}

// mayRun reports whether the job waits for pods that might still run. With the clean-up policy None the job does not
// wait for its pods, because a parameter server can run forever.
func (s *steps) mayRun() bool {
	if keepsPods(s.job) {
		return false
	}
	mayRun := false
	for _, pod := range s.seen.Pods {
		switch {
		case policy.MayRun(pod):
			mayRun = true
		case pod.DeletionTimestamp != nil && s.now.Before(pod.DeletionTimestamp.Time):
			// The pod has ended, and the kubelet removes it within a second. So one write can report both the end of the job and
			// the end of the pod. If a finalizer keeps the pod, the job does not wait longer than the grace period.
			mayRun = true
			s.wakeAt(pod.DeletionTimestamp.Time)
		}
	}
	return mayRun
}

// overdueDelay is how long a pod can exceed its time to end before the job reports that it waits for the pod.
const overdueDelay = time.Minute

// reportOverdue reports the pods that keep a job from finishing although their time to end is over. Either their node
// is lost, or their deletion is rejected. If the pods of a job end in time, no status is written for this report.
func (s *steps) reportOverdue() {
	var overdue []*corev1.Pod
	mayEnd := s.peersMayEnd()
	for name, pod := range s.seen.Pods {
		due := mayEnd[name]
		if due.IsZero() {
			due = decisionOf(s.Status).LastTransitionTime.Time
		}
		if pod.DeletionTimestamp != nil {
			due = pod.DeletionTimestamp.Time
		}
		if policy.MayRun(pod) && s.isOverdue(due) {
			overdue = append(overdue, pod)
		}
	}
	if len(overdue) == 0 {
		return
	}
	message := waitingForOverdue(overdue) + ": " + decisionOf(s.Status).Message
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinishing, message)
}

// isOverdue reports whether a pod that had to end at the given time is overdue. If not, it requeues the job.
func (s *steps) isOverdue(due time.Time) bool {
	due = due.Add(overdueDelay)
	if s.now.Before(due) {
		s.wakeAt(due)
		return false
	}
	return true
}

// waitingForOverdue returns the message about pods that should be gone. The containers of a pod that a finalizer keeps
// have ended.
func waitingForOverdue(overdue []*corev1.Pod) string {
	sortByName(overdue)
	first := overdue[0]
	late := "pod " + first.Name
	if node := first.Spec.NodeName; node != "" {
		late += " on node " + node
	}
	if !policy.MayRun(first) {
		late += " (its containers have ended)"
	}
	if more := len(overdue) - 1; more > 0 {
		late += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("waiting for overdue %s to end", late)
}

// keepsPods reports whether the clean-up policy keeps running pods.
func keepsPods(job Job) bool {
	return job.Spec.RunPolicy.CleanUpPolicy == batchv1beta1.CleanUpPolicyNone
}

// finish makes the end of the job final.
func (s *steps) finish() {
	s.Status.CompletionTime = stored(s.now)
	s.Status.Phase = batchv1beta1.JobPhaseSucceeded
	condition := batchv1beta1.ConditionCompleted
	eventType, eventReason := corev1.EventTypeNormal, batchv1beta1.EventCompleted
	end := decisionOf(s.Status)
	if successOf(s.Status) == nil {
		s.Status.Phase = batchv1beta1.JobPhaseFailed
		condition = batchv1beta1.ConditionFailed
		eventType, eventReason = corev1.EventTypeWarning, batchv1beta1.EventFailed
	}
	reason, message := end.Reason, end.Message
	s.setCondition(condition, metav1.ConditionTrue, reason, message)
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinished, message)
	s.setTasks()
	s.addEvent(eventType, eventReason, "Finish", message, s.factsOfEnd(reason)...)
}

// successOf returns the condition that records the decision about a success, or nil if the job did not succeed. An
// earlier version of the controller recorded the decision in the condition Completed.
func successOf(status batchv1beta1.JobStatus) *metav1.Condition {
	for _, decidedBy := range []string{batchv1beta1.ConditionSuccessCriteriaMet, batchv1beta1.ConditionCompleted} {
		c := meta.FindStatusCondition(status.Conditions, decidedBy)
		if c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

// decisionOf returns the condition that records the decision about the end of a job.
func decisionOf(status batchv1beta1.JobStatus) *metav1.Condition {
	if success := successOf(status); success != nil {
		return success
	}
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionFailureTarget)
}

// factsOfEnd returns the facts of the failure that ended the job, or nil if no failure ended it. It is the last failure
// in the status.
func (s *steps) factsOfEnd(reason string) []any {
	isFailure := reason == batchv1beta1.ReasonPermanentFailure || reason == batchv1beta1.ReasonBackoffLimitExceeded
	if !isFailure || len(s.Status.Failures) == 0 {
		return nil
	}
	last := s.Status.Failures[0]
	facts := []any{"replica", last.Replica, "cause", last.Reason, "counted", last.Counted}
	if last.ExitCode != nil {
		facts = append(facts, "exitCode", *last.ExitCode)
	}
	return facts
}
