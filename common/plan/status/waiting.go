package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// waitingFor returns how many replicas neither run nor have ended, and the reason why one of them waits. The first
// replica that cannot start without help determines the reason. If there is no such replica, the reason is Restarting
// if pods are overdue. Otherwise, the first replica that waits determines the reason.
func (r *renderer) waitingFor() (waiting int, reason, message string) {
	for _, replica := range r.Replicas {
		why, text := r.explain(replica)
		if why == "" {
			continue
		}
		waiting++
		if reason == "" || (StartsByItself(reason) && !StartsByItself(why)) {
			reason, message = why, text
		}
	}
	if len(r.facts.Overdue) > 0 && StartsByItself(reason) {
		reason, message = batchv1beta1.ReasonRestarting, waitingForOverdue(r.facts.Overdue)
	}
	return waiting, reason, message
}

// StartsByItself reports whether a replica that waits for this reason will run without help.
func StartsByItself(reason string) bool {
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
func (r *renderer) explain(replica *view.Replica) (reason, message string) {
	isRestarted := r.facts.Counts.Restarts+replica.Recorded.Attempt > 0
	switch {
	case replica.Done:
		return "", ""
	case replica.IsReplaced():
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s is being replaced", replica.Member.Name)
	case replica.Pod == nil && replica.Recorded.RestartTime != nil && replica.Recorded.RestartTime.After(r.Now):
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s restarts at %s",
			replica.Member.Name, replica.Recorded.RestartTime.UTC().Format("15:04:05 MST"))
	case replica.Pod == nil && r.facts.Wait != nil:
		return r.facts.Wait.Reason, r.facts.Wait.Message
	case replica.Pod == nil && r.isRefused():
		return view.Initialized(r.Status).Reason, view.Initialized(r.Status).Message
	case replica.Pod == nil && isRestarted:
		return batchv1beta1.ReasonRestarting, fmt.Sprintf("%s is being recreated", replica.Member.Name)
	case replica.Pod == nil:
		return batchv1beta1.ReasonCreating, fmt.Sprintf("%s is being created", replica.Member.Name)
	case replica.Outcome.Phase == batchv1beta1.ReplicaPhaseUnknown:
		return batchv1beta1.ReasonPending, fmt.Sprintf("the state of %s cannot be obtained", replica.Member.Name)
	case replica.Outcome.Phase == batchv1beta1.ReplicaPhasePending:
		return r.WhyPending(replica.Pod)
	default:
		return "", ""
	}
}

// waitingForOverdue returns the message about pods that should be gone. If the containers of the first pod have
// ended, the message shows that, because then a finalizer keeps the pod.
func waitingForOverdue(overdue []*corev1.Pod) string {
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

// announceWait emits an event when the job starts to wait for the given reason, if the wait does not end without
// intervention.
func (r *renderer) announceWait(reason string) {
	if r.facts.Wait == nil || r.facts.Wait.Reason != reason || !r.facts.Wait.NeedsHelp {
		return
	}
	before := meta.FindStatusCondition(r.Job.Status.Conditions, batchv1beta1.ConditionRunning)
	if before == nil || before.Reason != reason {
		r.AnnouncesWait = true
		r.addEvent(corev1.EventTypeWarning, reason, "Queue", r.facts.Wait.Message)
	}
}
