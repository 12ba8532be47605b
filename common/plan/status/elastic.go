package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// recovered returns the message about a job that has recovered from a failure.
func (r *renderer) recovered() string {
	if r.Job.Spec.Elastic != nil {
		return "the job trains again"
	}
	return "every replica runs again"
}

// tooFewReplicas returns the message about an elastic job in which no replica waits, but fewer replicas are left than
// the job needs.
func (r *renderer) tooFewReplicas() string {
	return fmt.Sprintf(
		"fewer replicas are left than elastic.minReplicas (%d): the others failed and are not restarted",
		r.Job.Spec.Elastic.Least())
}

// partiallyRunning returns the message about an elastic job that runs although some replicas wait. The parameter why
// explains the wait.
func (r *renderer) partiallyRunning(waiting int, why string) string {
	return fmt.Sprintf("%d of %d replicas run, and elastic.minReplicas is %d: %s",
		len(r.Replicas)-waiting, len(r.Replicas), r.Job.Spec.Elastic.Least(), why)
}

// announceScale emits an event if the number of replicas of a started elastic job changes.
func (r *renderer) announceScale() {
	if r.Job.Spec.Elastic == nil || r.facts.StartTime == nil || r.facts.End != nil {
		return
	}
	recorded := 0
	for _, task := range r.Job.Status.Tasks {
		recorded += len(task.Replicas)
	}
	if recorded > 0 && recorded != len(r.Replicas) {
		r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventScaled, "Scale",
			fmt.Sprintf("scaled from %d to %s", recorded, report.Count(len(r.Replicas), "replica")),
			"from", recorded, "to", len(r.Replicas))
	}
}

// goesOnWithout reports whether the job goes on without a replica whose pod is being deleted. If so, the status shows
// the replica as if it had not run yet.
func goesOnWithout(r *view.Replica) bool { return r.Spec.Elastic != nil }
