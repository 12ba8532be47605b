package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// stop begins the pause of a job that has started. It begins a new attempt, so that all pods belong to an earlier one.
// Their failures are ignored, since deleting one pod makes its peers fail. The status is written before the first pod
// is deleted.
func (s *steps) stop() {
	s.Status.Pauses++
	s.Status.StartTime = nil
	s.view = s.inNewAttempt(jobAttempt(s.Status), nil)
	if meta.IsStatusConditionTrue(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure) {
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse,
			batchv1beta1.ReasonPaused, "the job is paused")
	}
}

// pause deletes the pods of a job that the user pauses. The job is Paused when the last pod is gone.
func (s *steps) pause() {
	s.identify()
	s.Status.Defaults = nil // the user can change the parts of the spec that they depend on
	s.setTasks()
	s.accept("the job is accepted and its replicas are created when it is resumed")
	s.deleteAllBut(nil)
	s.endAdmission()
	phase, reason, message := batchv1beta1.JobPhasePaused, batchv1beta1.ReasonPaused, "the job is paused"
	paused, wasPaused := metav1.ConditionTrue, isPaused(s.Status)
	if left := len(s.seen.Pods); left > 0 {
		phase, reason = batchv1beta1.JobPhasePending, batchv1beta1.ReasonPausing
		message = fmt.Sprintf("remaining pods: %d", left)
		paused = metav1.ConditionFalse
	} else if !wasPaused {
		s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventPaused, "Pause", message)
	}
	s.Status.Phase, s.Status.Reason = phase, reason
	s.setCondition(batchv1beta1.ConditionPaused, paused, reason, message)
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
}

// resume ends the pause of a job that is paused or pausing. It does nothing for other jobs.
func (s *steps) resume() {
	paused := meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionPaused)
	if paused == nil || paused.Reason == batchv1beta1.ReasonResumed {
		return
	}
	s.Status.Phase = batchv1beta1.JobPhaseResuming
	s.setCondition(batchv1beta1.ConditionPaused, metav1.ConditionFalse, batchv1beta1.ReasonResumed, "the job was resumed")
	s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventResumed, "Resume",
		"the job was resumed and its replicas are created")
}
