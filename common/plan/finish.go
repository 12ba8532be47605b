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

// A job ends in two stages, as a batch/v1 Job does. First it is decided how it ends: the status records the decision
// before anything is deleted, and nothing changes it any more. Then the pods end, or are cleaned up, and the job
// finishes when none of them runs.

// end finishes a job whose end is decided if nothing of it runs any more, and cleans up.
func (s *steps) end() {
	if s.mayRun() {
		s.reportOverdue()
	} else {
		s.finish()
	}
	s.cleanUp()
}

// mayRun reports whether anything of a job whose end is decided may still run. With the clean-up policy None, a job
// does not wait for its pods: a parameter server may run forever.
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
			// The kubelet removes the pod within a second. Then one write reports the end of the job and of the pod. A
			// pod that somebody else keeps by a finalizer is not waited for longer than its grace period.
			mayRun = true
			s.wakeAt(pod.DeletionTimestamp.Time)
		}
	}
	return mayRun
}

// overdueDelay is how long past its time a pod may run before the job reports that it does not finish because of it.
const overdueDelay = time.Minute

// reportOverdue reports the pods that keep a job from finishing although their time to end is over: because of a lost
// node, or because their deletion is refused. A job whose pods end in time costs no write.
func (s *steps) reportOverdue() {
	var overdue []*corev1.Pod
	for _, pod := range s.seen.Pods {
		due := s.peersMayEnd()
		if due.IsZero() {
			due = decisionOf(s.Status).LastTransitionTime.Time
		}
		if pod.DeletionTimestamp != nil {
			due = pod.DeletionTimestamp.Time
		}
		switch due = due.Add(overdueDelay); {
		case !policy.MayRun(pod):
		case s.now.Before(due):
			s.wakeAt(due)
		default:
			overdue = append(overdue, pod)
		}
	}
	if len(overdue) == 0 {
		return
	}
	sortByName(overdue)
	late := "pod " + overdue[0].Name
	if node := overdue[0].Spec.NodeName; node != "" {
		late += " on node " + node
	}
	if more := len(overdue) - 1; more > 0 {
		late += fmt.Sprintf(" and of %d more", more)
	}
	message := fmt.Sprintf("the job finishes when its pods have ended, and the time of %s is over: %s",
		late, decisionOf(s.Status).Message)
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinishing, message)
}

// keepsPods reports whether the clean-up leaves pods that run.
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

// successOf returns the condition by which the success of a job was decided, or nil if the job did not succeed. An
// earlier version of the controller decided it by the condition Completed.
func successOf(status batchv1beta1.JobStatus) *metav1.Condition {
	for _, decidedBy := range []string{batchv1beta1.ConditionSuccessCriteriaMet, batchv1beta1.ConditionCompleted} {
		c := meta.FindStatusCondition(status.Conditions, decidedBy)
		if c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

// decisionOf returns the condition by which the end of a job was decided.
func decisionOf(status batchv1beta1.JobStatus) *metav1.Condition {
	if success := successOf(status); success != nil {
		return success
	}
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionFailureTarget)
}

// factsOfEnd returns the facts of the failure that ended the job, if one did. It is the last one that was recorded.
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
