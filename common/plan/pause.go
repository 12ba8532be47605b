package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// stop begins the pause of a job that has started. From now on all pods belong to an earlier attempt, so that it does
// not matter how they end: a pod that is deleted takes its peers with it. The status is written before the first of
// them is deleted.
func (s *steps) stop() {
	//mutant:a pause is not counted before pods are deleted =>
	s.Status.Pauses++
	s.Status.StartTime = nil
	s.view = s.inNewAttempt(jobAttempt(s.Status), nil)
	if meta.IsStatusConditionTrue(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure) {
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse,
			batchv1beta1.ReasonPaused, "the job is paused")
	}
}

// pause deletes the pods of a job that is to be paused. It is Paused when the last of them is gone.
func (s *steps) pause() {
	s.identify()
	s.setTasks()
	s.accept("the job is accepted and its replicas are created when it is resumed")
	//mutant:late: a pod that is created late stays in a pause => if !isPaused(s.Status) { s.deleteAllBut(nil) }
	s.deleteAllBut(nil)
	//mutant:a gang: its group stays when it pauses =>
	s.endAdmission()
	phase, reason, message := batchv1beta1.JobPhasePaused, batchv1beta1.ReasonPaused, "the job is paused"
	paused, wasPaused := metav1.ConditionTrue, isPaused(s.Status)
	if left := len(s.seen.Pods); left > 0 {
		phase, reason = batchv1beta1.JobPhasePending, batchv1beta1.ReasonPausing
		message = fmt.Sprintf("pods that are left: %d", left)
		paused = metav1.ConditionFalse
	} else if !wasPaused {
		s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventPaused, "Pause", message)
	}
	s.Status.Phase, s.Status.Reason = phase, reason
	s.setCondition(batchv1beta1.ConditionPaused, paused, reason, message)
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
}

// resume ends a pause, if the job is paused or was about to be.
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
