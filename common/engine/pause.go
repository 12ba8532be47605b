package engine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// endRun begins the pause of a job that has started. All its pods then belong to an earlier attempt, so that it means nothing
// how they end: one that is deleted takes its peers with it. The status says so before the first of them is deleted.
func (p *planner) endRun() {
	status := &p.decision.Status
	status.Pauses++
	status.StartTime = nil
	p.gang.Attempt = jobAttempt(*status)
	for _, r := range p.replicas {
		r.jobAttempt = p.gang.Attempt
		r.recorded = batchv1beta1.ReplicaStatus{Name: r.member.Name}
	}
	p.decision.Irrevocable = true
	if meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionReplicaFailure) {
		p.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, batchv1beta1.ReasonPaused, "the job is paused")
	}
}

// isPaused says that the job is paused and has no pods.
func isPaused(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionPaused)
}

// pause keeps a job without pods. It is Paused when the last of them is gone.
func (p *planner) pause() {
	p.identify()
	p.setTasks()
	p.accept("the job is accepted and its replicas are created when it is resumed")
	p.removeAllBut(nil)
	p.releaseGroup()
	status := &p.decision.Status
	phase, reason, message := batchv1beta1.JobPhasePaused, batchv1beta1.ReasonPaused, "the job is paused"
	paused, was := metav1.ConditionTrue, isPaused(*status)
	if left := len(p.seen.Pods); left > 0 {
		phase, reason, message = batchv1beta1.JobPhasePending, batchv1beta1.ReasonPausing, fmt.Sprintf("pods that are left: %d", left)
		paused = metav1.ConditionFalse
	} else if !was {
		p.addEvent(corev1.EventTypeNormal, batchv1beta1.EventPaused, "Pause", message)
	}
	if was != (paused == metav1.ConditionTrue) {
		p.decision.Irrevocable = true // a cache may lack a pod that was just created, or have one that is gone
	}
	status.Phase, status.Reason = phase, reason
	p.setCondition(batchv1beta1.ConditionPaused, paused, reason, message)
	p.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
}

// resume ends a pause, if the job is paused or was to be.
func (p *planner) resume() {
	status := &p.decision.Status
	paused := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionPaused)
	if paused == nil || paused.Reason == batchv1beta1.ReasonResumed {
		return
	}
	status.Phase = batchv1beta1.JobPhaseResuming
	p.setCondition(batchv1beta1.ConditionPaused, metav1.ConditionFalse, batchv1beta1.ReasonResumed, "the job was resumed")
	p.addEvent(corev1.EventTypeNormal, batchv1beta1.EventResumed, "Resume", "the job was resumed and its replicas are created")
}
