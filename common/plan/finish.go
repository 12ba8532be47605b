package plan

import (
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
	if !s.mayRun() {
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
		case !policy.Ended(pod):
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

// keepsPods reports whether the clean-up leaves pods that run.
func keepsPods(job Job) bool {
	return job.Spec.RunPolicy.CleanUpPolicy == batchv1beta1.CleanUpPolicyNone
}

// finish makes the end of the job final.
func (s *steps) finish() {
	s.Status.CompletionTime = stored(s.now)
	s.Status.Phase = batchv1beta1.JobPhaseSucceeded
	condition, eventType, eventReason := batchv1beta1.ConditionCompleted, corev1.EventTypeNormal, batchv1beta1.EventCompleted
	end := successOf(s.Status)
	if end == nil {
		end = meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionFailureTarget)
		s.Status.Phase = batchv1beta1.JobPhaseFailed
		condition, eventType, eventReason = batchv1beta1.ConditionFailed, corev1.EventTypeWarning, batchv1beta1.EventFailed
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
	if last.Rank != nil {
		facts = append(facts, "rank", *last.Rank)
	}
	return facts
}
