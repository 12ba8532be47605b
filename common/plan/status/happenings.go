package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

// announceHappenings adds an event for each happening.
func (r *renderer) announceHappenings() {
	for _, happening := range r.facts.Happenings {
		switch h := happening.(type) {
		case decide.RestartsAll:
			r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestarting, "Restart", r.restartingAll(h.Cause),
				append(logged(h.Cause), "restarted", len(r.Replicas))...)
		case decide.RestartsOne:
			r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestarting, "Restart",
				fmt.Sprintf("restarting %s: %s", h.Failure.Replica.Member.Name, h.Failure),
				append(logged(h.Failure), "restarted", 1)...)
		case decide.StaysFailed:
			r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventReplicaFailed, "Observe",
				h.Failure.String()+" and is not restarted", logged(h.Failure)...)
		case decide.Evicts:
			r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventStopped, "Stop", h.Why)
		case decide.AvoidsNode:
			r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventNodeAvoided, "Restart",
				fmt.Sprintf("new pods avoid node %s until %s: replicas have failed on it twice, the last with reason %s",
					h.Node.Name, h.Node.Until.UTC().Format(time.RFC3339), h.Node.Reason),
				"node", h.Node.Name, "cause", h.Node.Reason)
		case decide.AllowsNode:
			r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventNodeAllowed, "Restart",
				fmt.Sprintf("new pods can run on node %s again: %s", h.Name, h.Why), "node", h.Name)
		}
	}
}

// restartingAll returns the message about a failure that restarts all replicas.
func (r *renderer) restartingAll(cause view.ReplicaFailure) string {
	message := fmt.Sprintf("restarting all %d replicas: %s", len(r.Replicas), cause)
	if len(r.Replicas) == 1 {
		message = fmt.Sprintf("restarting the replica: %s", cause)
	}
	if cause.IsStall() {
		message += ": " + cause.Failure.Message
	}
	return message
}

// logged returns the keys and values for a log line about the failure. They do not include the output of the replica.
func logged(f view.ReplicaFailure) []any {
	facts := []any{"replica", f.Culprit().Member.Name, "cause", f.Failure.Reason, "counted", !f.Failure.Ignored}
	if f.Failure.ExitCode != nil {
		facts = append(facts, "exitCode", *f.Failure.ExitCode)
	}
	if rank := f.Report().Rank; rank != nil {
		facts = append(facts, "rank", *rank)
	}
	return facts
}
