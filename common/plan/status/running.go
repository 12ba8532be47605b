package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// noReplicas is the message about a job whose spec has no replicas.
const noReplicas = "every replicaSpec has 0 replicas: nothing can run"

// setRunning sets the condition Running.
func (r *renderer) setRunning() {
	f := r.facts
	if r.catchesUp() {
		r.setNotRunning(batchv1beta1.ReasonPending, "the replicas were starting")
	}
	switch {
	case f.Finishes:
		r.setNotRunning(batchv1beta1.ReasonFinished, f.End.Message)
	case len(f.Overdue) > 0 && f.End != nil:
		r.setNotRunning(batchv1beta1.ReasonFinishing, waitingForOverdue(f.Overdue)+": "+f.End.Message)
	case f.Action == decide.DecideEnd:
		r.setNotRunning(batchv1beta1.ReasonFinishing, f.End.Message)
	case r.pauses():
		paused := meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionPaused)
		r.setNotRunning(paused.Reason, paused.Message)
	case f.Action == decide.Hold && !view.IsRunning(r.Status):
		r.setNotRunning(batchv1beta1.ReasonNoReplicas, noReplicas)
	case f.Action == decide.Queue:
		r.setNotRunning(f.Wait.Reason, f.Wait.Message)
	case r.runs():
		r.announceWait(r.reportReplicas())
	}
}

// reportReplicas sets the condition Running according to the replicas, and returns the reason of the condition.
func (r *renderer) reportReplicas() (reason string) {
	waiting, reason, message := r.waitingFor()
	switch {
	case r.facts.KeepsWaiting:
		return meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionRunning).Reason
	case r.facts.Running && waiting > 0:
		reason = batchv1beta1.ReasonPartiallyRunning
		r.setIsRunning(reason, r.partiallyRunning(waiting, message))
	case r.facts.Running:
		reason = batchv1beta1.ReasonReplicasRunning
		message = fmt.Sprintf("all %d replicas run or have ended", len(r.Replicas))
		if len(r.Replicas) == 1 {
			message = "the replica runs or has ended"
		}
		r.setIsRunning(reason, message)
	case waiting == 0:
		reason = batchv1beta1.ReasonTooFewReplicas
		r.setNotRunning(reason, r.tooFewReplicas())
	case IsCreateFailure(reason):
		r.setNotRunning(reason, message)
	default:
		r.setNotRunning(reason, notRunning(waiting, len(r.Replicas))+": "+message)
	}
	return reason
}

// setNotRunning sets the condition Running of a job that does not run.
func (r *renderer) setNotRunning(reason, message string) {
	r.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
}

// setIsRunning sets the condition Running of a job that runs.
func (r *renderer) setIsRunning(reason, message string) {
	if !view.IsRunning(r.Status) {
		if r.Status.RunningTime == nil {
			r.Status.RunningTime = view.Stored(r.Now)
			r.StartDuration = new(r.Now.Sub(r.waitedSince()))
		}
		r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventRunning, "Observe", message)
	}
	r.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionTrue, reason, message)
}

// notRunning returns how many replicas of a job do not run, as a part of a message.
func notRunning(waiting, all int) string {
	switch {
	case all == 1:
		return "the replica is not running yet"
	case waiting == 1:
		return fmt.Sprintf("1 of %d replicas is not running yet", all)
	default:
		return fmt.Sprintf("%d of %d replicas are not running yet", waiting, all)
	}
}

// waitedSince returns when StartDuration begins. This is the creation of the job. If the job was paused before it
// ran, it is the start after the pause.
func (r *renderer) waitedSince() time.Time {
	wasPaused := meta.FindStatusCondition(r.Status.Conditions, batchv1beta1.ConditionPaused) != nil
	if wasPaused && r.Status.StartTime != nil {
		return r.Status.StartTime.Time
	}
	return r.Job.Created
}
