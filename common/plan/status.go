package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// identify sets the observed generation, and the selector by which others find the pods.
func (s *steps) identify() {
	s.Status.ObservedGeneration = s.job.Generation
	s.Status.Selector = labels.SelectorFromSet(SelectorLabels(s.job.Kind.Kind, s.job.Name)).String()
}

// setStatus sets the conditions and the phase of a job that runs or is starting.
func (s *steps) setStatus() {
	s.setTasks()
	s.setInitialized()
	s.setReplicaFailure()
	waiting, reason, message := s.waitingFor()
	elastic := s.job.Spec.Elastic
	switch before := meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionRunning); {
	case waiting > 0 && s.isAdmissionUnknown() && before != nil && before.Status == metav1.ConditionFalse &&
		before.ObservedGeneration == s.job.Generation:
		reason = before.Reason // the current reason will soon be known
	case waiting == 0 && elastic != nil && !s.trainsWithLess():
		reason = batchv1beta1.ReasonTooFewReplicas
		message = fmt.Sprintf(
			"fewer replicas are left than elastic.minReplicas (%d): the others failed and are not restarted", elastic.Least())
		s.setWaiting(reason, message)
	case waiting == 0:
		reason = batchv1beta1.ReasonReplicasRunning
		message = fmt.Sprintf("all %d replicas run or have ended", len(s.replicas))
		if len(s.replicas) == 1 {
			message = "the replica runs or has ended"
		}
		s.setRunning(reason, message)
	case s.trainsWithLess():
		reason = batchv1beta1.ReasonPartiallyRunning
		message = fmt.Sprintf("%d of %d replicas run, and elastic.minReplicas is %d: %s",
			len(s.replicas)-waiting, len(s.replicas), elastic.Least(), message)
		s.setRunning(reason, message)
	case IsCreateFailure(reason):
		s.setWaiting(reason, message)
	default:
		s.setWaiting(reason, notRunning(waiting, len(s.replicas))+": "+message)
	}
	s.setReason(reason)
	if s.replicas[0].outcome.Phase == batchv1beta1.ReplicaPhaseUnknown {
		s.Status.Phase = batchv1beta1.JobPhaseUnknown
	}
	s.announceWait(reason)
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

// setReason sets the reason of the status. A problem that Initialized reports takes precedence.
func (s *steps) setReason(reason string) {
	s.Status.Reason = reason
	if c := initialized(s.Status); c.Status == metav1.ConditionFalse {
		s.Status.Reason = c.Reason
	}
}

// setWaiting sets the phase and the condition Running of a job that waits for replicas.
func (s *steps) setWaiting(reason, message string) {
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
	if s.Status.Phase != batchv1beta1.JobPhaseResuming {
		s.Status.Phase = batchv1beta1.JobPhasePending
	}
}

// setRunning sets the phase and the condition Running of a job that trains.
func (s *steps) setRunning(reason, message string) {
	s.Status.Phase = batchv1beta1.JobPhaseRunning
	if !isRunning(s.Status) {
		if s.Status.RunningTime == nil {
			s.Status.RunningTime = stored(s.now)
			s.StartDuration = new(s.now.Sub(s.waitedSince()))
		}
		s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventRunning, "Observe", message)
	}
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionTrue, reason, message)
}

// waitedSince returns when the job began to wait for its start: when it was created, or resumed if it was created
// paused.
func (s *steps) waitedSince() time.Time {
	if meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionPaused) != nil {
		return s.Status.StartTime.Time
	}
	return s.job.Created
}

// accepted is the message of the condition Initialized of a job that runs or is starting.
const accepted = "the job is accepted and its replicas are created as they are needed"

// accept sets Initialized to True, and reports parts of the spec that have no effect.
func (s *steps) accept(message string) {
	if notice := s.job.Spec.NoEffect(); notice != "" {
		message += "; " + notice
		if initialized(s.Status) == nil {
			s.addEvent(corev1.EventTypeWarning, batchv1beta1.EventNoEffect, "Plan", notice)
		}
	}
	s.setCondition(batchv1beta1.ConditionInitialized, metav1.ConditionTrue, batchv1beta1.ReasonAccepted, message)
}

// refuse sets Initialized to False, and emits an event if the reason is new.
func (s *steps) refuse(reason, message string) {
	if before := initialized(s.Status); before == nil || before.Reason != reason {
		s.addEvent(corev1.EventTypeWarning, reason, "Plan", message)
	}
	s.setCondition(batchv1beta1.ConditionInitialized, metav1.ConditionFalse, reason, message)
}

// Refuse reports in a status that an object of the job could not be created: in the condition Initialized, and in the
// condition Running of a job that waits, whose message kubectl get shows. It reports whether the status changes.
func Refuse(status *batchv1beta1.JobStatus, refused *report.RefusedError, generation int64, now time.Time) bool {
	condition := metav1.Condition{
		Status: metav1.ConditionFalse, Reason: refused.Reason, Message: report.Truncated(refused.Error(), report.MaxMessage),
		ObservedGeneration: generation, LastTransitionTime: *stored(now),
	}
	status.Reason = refused.Reason
	condition.Type = batchv1beta1.ConditionInitialized
	changed := meta.SetStatusCondition(&status.Conditions, condition)
	if meta.IsStatusConditionFalse(status.Conditions, batchv1beta1.ConditionRunning) {
		condition.Type = batchv1beta1.ConditionRunning
		changed = meta.SetStatusCondition(&status.Conditions, condition) || changed
	}
	return changed
}

// isRefused reports whether an object of the job could not be created, and nothing has changed this since.
func (s *steps) isRefused() bool {
	c := initialized(s.Status)
	return c != nil && c.Status == metav1.ConditionFalse && IsCreateFailure(c.Reason)
}

// setInitialized sets the condition Initialized. It keeps a rejection by the API server until nothing is left to
// create.
func (s *steps) setInitialized() {
	if s.refusal != nil {
		s.refuse(s.refusal.Reason, s.refusal.Error())
		return
	}
	isMissing := func(r *replica) bool { return !r.isCurrent() && !r.done }
	isTried := s.CreateService || s.EnsureNetworkPolicy || s.Admission.Action != "" || s.isAdmissionUnknown()
	if isTried || (s.waitsFor == nil || len(s.Creates) > 0) && slices.ContainsFunc(s.replicas, isMissing) {
		if s.isRefused() {
			return
		}
	}
	s.accept(accepted)
}

// IsCreateFailure reports whether a reason of Initialized means that an object of the job could not be created or
// updated.
func IsCreateFailure(reason string) bool {
	switch reason {
	case batchv1beta1.ReasonNameConflict, batchv1beta1.ReasonCreateFailed, batchv1beta1.ReasonAdmissionChangedPod,
		batchv1beta1.ReasonUpdateFailed, batchv1beta1.ReasonNotInstalled, batchv1beta1.ReasonResourceQuotaExceeded:
		return true
	default:
		return false
	}
}

// setReplicaFailure sets ReplicaFailure. The condition is True from a failure until the job has recovered.
func (s *steps) setReplicaFailure() {
	for _, r := range s.replicas {
		if failure := r.failure(); failure != nil {
			failed := replicaFailure{replica: r, failure: *failure}
			s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, failure.Reason, failed.String())
			return
		}
	}
	if s.lastRestarted != nil {
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, s.lastRestarted.failure.Reason,
			s.lastRestarted.String()+" and is being replaced")
		return
	}
	failed := meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	if failed != nil && failed.Status == metav1.ConditionTrue && s.hasRecovered() {
		since := failed.LastTransitionTime.Time
		if last := s.Status.Failures; len(last) > 0 && last[0].Time.Time.Before(since) {
			since = last[0].Time.Time // the controller saw the failure late
		}
		s.RecoveryDuration = new(s.now.Sub(since))
		message := "every replica runs again"
		if s.job.Spec.Elastic != nil {
			message = "the job trains again"
		}
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, batchv1beta1.ReasonRecovered, message)
	}
}

// hasRecovered reports whether the job runs again, including every replica that was restarted without its peers. An
// elastic job can recover with fewer replicas than it expects, even if all replicas were restarted.
func (s *steps) hasRecovered() bool {
	trains := s.trainsWithLess()
	return !slices.ContainsFunc(s.replicas, func(r *replica) bool {
		waiting, _ := s.explain(r)
		mayWait := trains && r.recorded.Attempt == 0
		return r.staysFailed() || waiting != "" && !mayWait
	})
}

// waitingFor counts the replicas that neither run nor have done their part, and explains one of them: preferably one
// that cannot start without help, or the pods that should have ended before a restart.
func (s *steps) waitingFor() (waiting int, reason, message string) {
	var overdue []*corev1.Pod
	for _, r := range s.replicas {
		why, text := s.explain(r)
		if why == "" {
			continue
		}
		waiting++
		if r.isReplaced() && r.outcome.Terminating && s.isOverdue(r.pod.DeletionTimestamp.Time) {
			overdue = append(overdue, r.pod)
		}
		if reason == "" || (startsByItself(reason) && !startsByItself(why)) {
			reason, message = why, text
		}
	}
	if len(overdue) > 0 && startsByItself(reason) {
		reason, message = batchv1beta1.ReasonRestarting, waitingForOverdue(overdue)
	}
	return waiting, reason, message
}

// startsByItself reports whether a replica that waits for this reason will run without help.
func startsByItself(reason string) bool {
	switch reason {
	case batchv1beta1.ReasonCreating, batchv1beta1.ReasonPending, batchv1beta1.ReasonRestarting, batchv1beta1.ReasonQueued,
		schedulerv1beta1.ReasonEarlierGroup:
		return true
	default:
		return false
	}
}

// explain returns why a replica does not run. The reason is empty if the replica runs, or if it has ended and is not
// restarted.
func (s *steps) explain(r *replica) (reason, message string) {
	isRestarted := s.Status.Attempt+r.recorded.Attempt > 0
	switch {
	case r.done:
		return "", ""
	case r.isReplaced():
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s is being replaced", r.member.Name)
	case r.pod == nil && r.recorded.RestartTime != nil && r.recorded.RestartTime.After(s.now):
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s restarts at %s",
			r.member.Name, r.recorded.RestartTime.UTC().Format("15:04:05 MST"))
	case r.pod == nil && s.waitsFor != nil:
		return s.waitsFor.Reason, s.waitsFor.Message
	case r.pod == nil && s.isRefused():
		return initialized(s.Status).Reason, initialized(s.Status).Message
	case r.pod == nil && isRestarted:
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s is being recreated", r.member.Name)
	case r.pod == nil:
		return batchv1beta1.ReasonCreating, fmt.Sprintf("%s is being created", r.member.Name)
	case r.outcome.Phase == batchv1beta1.ReplicaPhaseUnknown:
		return batchv1beta1.ReasonPending, fmt.Sprintf("the state of %s cannot be obtained", r.member.Name)
	case r.outcome.Phase == batchv1beta1.ReplicaPhasePending:
		return s.whyPending(r.pod)
	default:
		return "", ""
	}
}

// setCondition sets a condition of the status.
func (s *steps) setCondition(conditionType string, conditionStatus metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             conditionStatus,
		Reason:             reason,
		Message:            report.Truncated(message, report.MaxMessage),
		ObservedGeneration: s.job.Generation,
		LastTransitionTime: *stored(s.now),
	})
}
