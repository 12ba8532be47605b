package engine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/control"
)

// settle sets the conditions and the phase of an active job.
func (p *planner) settle() {
	p.setTasks()
	p.settleInitialized()
	p.settleReplicaFailure()

	status := &p.decision.Status
	waiting, reason, message := p.waitingFor()
	switch before := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning); {
	case waiting > 0 && p.seen.PodGroup.Unknown && before != nil && before.Status == metav1.ConditionFalse &&
		before.ObservedGeneration == p.job.Generation:
		reason = before.Reason // what they wait for is soon known again
	case waiting == 0 && p.job.Spec.Elastic != nil && !p.trainsWithLess():
		reason, message = batchv1beta1.ReasonTooFewReplicas, fmt.Sprintf(
			"fewer replicas are left than elastic.minReplicas (%d): the others failed and are not restarted", p.job.Spec.Elastic.Least())
		p.settleWaiting(reason, message)
	case waiting == 0:
		reason, message = batchv1beta1.ReasonReplicasRunning, fmt.Sprintf("all %d replicas run or have ended", len(p.replicas))
		p.settleRunning(reason, message)
	case p.trainsWithLess():
		reason, message = batchv1beta1.ReasonPartiallyRunning, fmt.Sprintf("%d of %d replicas run, and elastic.minReplicas is %d: %s",
			len(p.replicas)-waiting, len(p.replicas), p.job.Spec.Elastic.Least(), message)
		p.settleRunning(reason, message)
	default:
		p.settleWaiting(reason, fmt.Sprintf("%d of %d replicas do not run yet: %s", waiting, len(p.replicas), message))
	}
	status.Reason = reason
	if p.replicas[0].outcome.Phase == batchv1beta1.ReplicaPhaseUnknown {
		status.Phase = batchv1beta1.JobPhaseUnknown
	}
	p.announceQueued(reason)
	if c := initialized(*status); c.Status == metav1.ConditionFalse {
		status.Reason = c.Reason
	}
}

func (p *planner) settleWaiting(reason, message string) {
	p.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
	if status := &p.decision.Status; status.Phase != batchv1beta1.JobPhaseResuming {
		status.Phase = batchv1beta1.JobPhasePending
	}
}

func (p *planner) settleRunning(reason, message string) {
	status := &p.decision.Status
	status.Phase = batchv1beta1.JobPhaseRunning
	if !isRunning(*status) {
		if status.RunningTime == nil {
			status.RunningTime = p.timestamp(p.now)
			p.decision.StartDuration = new(p.now.Sub(p.waitedSince()))
		}
		p.addEvent(corev1.EventTypeNormal, batchv1beta1.EventRunning, "Observe", message)
	}
	p.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionTrue, reason, message)
}

// waitedSince returns when the user asked for the job to run: one that was created paused did not before it was resumed.
func (p *planner) waitedSince() time.Time {
	status := p.decision.Status
	if meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionPaused) != nil {
		return status.StartTime.Time
	}
	return p.job.Created
}

// settleInitialized keeps a refusal by the API server until nothing is left to create.
func (p *planner) settleInitialized() {
	if p.refusal != nil {
		p.refuse(p.refusal.Reason, p.refusal.Error())
		return
	}
	missing := func(r *replica) bool { return r.pod == nil && !r.done }
	isTried := p.decision.CreateService || p.decision.PodGroup.Change != "" || p.seen.PodGroup.Unknown
	if isTried || p.queued == nil && slices.ContainsFunc(p.replicas, missing) {
		if c := initialized(p.decision.Status); c != nil && isCreateFailure(c.Reason) {
			return
		}
	}
	p.accept(accepted)
}

// accepted is what the condition Initialized says of a job that runs, or is about to.
const accepted = "the job is accepted and its replicas are created as they are needed"

// accept says that nothing stands in the way of the job, and what of its spec has no effect.
func (p *planner) accept(message string) {
	if notice := p.job.Spec.Notice; notice != "" {
		message += "; " + notice
		if initialized(p.decision.Status) == nil {
			p.addEvent(corev1.EventTypeWarning, batchv1beta1.EventNoEffect, "Plan", notice)
		}
	}
	p.setCondition(batchv1beta1.ConditionInitialized, metav1.ConditionTrue, batchv1beta1.ReasonAccepted, message)
}

func initialized(status batchv1beta1.JobStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionInitialized)
}

func isCreateFailure(reason string) bool {
	switch reason {
	case batchv1beta1.ReasonNameConflict, batchv1beta1.ReasonCreateFailed, batchv1beta1.ReasonUpdateFailed, batchv1beta1.ReasonNotInstalled:
		return true
	default:
		return false
	}
}

// settleReplicaFailure is True from a failure on until the job has recovered.
func (p *planner) settleReplicaFailure() {
	for _, r := range p.replicas {
		if failure := r.failure(); failure != nil {
			cause := rootCause{replica: r, failure: *failure}
			p.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, failure.Reason, cause.String())
			return
		}
	}
	status := &p.decision.Status
	if p.accounted != nil {
		p.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, p.accounted.failure.Reason,
			p.accounted.String()+" and is being replaced")
		return
	}
	failed := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionReplicaFailure)
	if failed != nil && failed.Status == metav1.ConditionTrue && p.hasRecovered() {
		since := failed.LastTransitionTime.Time
		if last := status.Failures; len(last) > 0 && last[0].Time.Time.Before(since) {
			since = last[0].Time.Time // the controller saw it late
		}
		p.decision.RecoveryDuration = new(p.now.Sub(since))
		message := "every replica runs again"
		if p.job.Spec.Elastic != nil {
			message = "the job trains again"
		}
		p.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, batchv1beta1.ReasonRecovered, message)
	}
}

// hasRecovered says that every replica that was restarted alone runs again, and so does the job. An elastic job runs with fewer
// replicas than it expects, also after all have been restarted.
func (p *planner) hasRecovered() bool {
	trains := p.trainsWithLess()
	return !slices.ContainsFunc(p.replicas, func(r *replica) bool {
		waiting, _ := p.explain(r)
		mayWait := trains && r.recorded.Attempt == 0
		return r.staysFailed() || waiting != "" && !mayWait
	})
}

// waitingFor counts the replicas that neither run nor have done their part, and explains the one that most needs it: one
// that cannot start by itself goes before one that is merely on its way.
func (p *planner) waitingFor() (waiting int, reason, message string) {
	for _, r := range p.replicas {
		why, text := p.explain(r)
		if why == "" {
			continue
		}
		waiting++
		if reason == "" || (onItsWay(reason) && !onItsWay(why)) {
			reason, message = why, text
		}
	}
	return waiting, reason, message
}

func onItsWay(reason string) bool {
	switch reason {
	case batchv1beta1.ReasonCreating, batchv1beta1.ReasonPending, batchv1beta1.ReasonRestarting, batchv1beta1.ReasonQueued:
		return true
	default:
		return false
	}
}

// explain says why a replica does not run, or nothing if it runs or has done its part. A replica that failed and stays
// failed has done its part.
func (p *planner) explain(r *replica) (reason, message string) {
	restarted := p.decision.Status.Attempt+r.recorded.Attempt > 0
	switch {
	case r.done:
		return "", ""
	case r.obsolete() || r.outcome.Terminating && r.failure() == nil:
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s is being replaced", r.member.Name)
	case r.pod == nil && restarted && r.recorded.RestartTime != nil && r.recorded.RestartTime.After(p.now):
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s restarts at %s",
			r.member.Name, r.recorded.RestartTime.UTC().Format("15:04:05 MST"))
	case r.pod == nil && p.queued != nil:
		return p.queued.reason, p.queued.message
	case r.pod == nil && restarted:
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s is being created again", r.member.Name)
	case r.pod == nil:
		return batchv1beta1.ReasonCreating, fmt.Sprintf("%s is being created", r.member.Name)
	case r.outcome.Phase == batchv1beta1.ReplicaPhaseUnknown:
		return batchv1beta1.ReasonPending, fmt.Sprintf("the state of %s cannot be obtained", r.member.Name)
	case r.outcome.Phase == batchv1beta1.ReplicaPhasePending:
		return p.whyPending(r.pod)
	default:
		return "", ""
	}
}

func (p *planner) setCondition(conditionType string, conditionStatus metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.decision.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             conditionStatus,
		Reason:             reason,
		Message:            control.Truncated(message, maxMessage),
		ObservedGeneration: p.job.Generation,
		LastTransitionTime: *p.timestamp(p.now),
	})
}
