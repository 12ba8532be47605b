package controller

import (
	"context"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/report"
)

// tell emits and logs events. If there are no events, but the phase has changed, it logs the change of the phase.
func (r *Reconciler[J]) tell(
	ctx context.Context, job J, status batchv1beta1.JobStatus, was batchv1beta1.JobPhase, events []report.Event,
) {
	facts := factsOf(status)
	for _, e := range events {
		loop.Tell(ctx, r.cluster.Events, job, e, facts...)
	}
	if len(events) == 0 && was != status.Phase {
		ctrllog.FromContext(ctx).Info("PhaseChanged", append(facts, "was", was)...)
	}
}

// factsOf returns keys and values of the status for a log line about the job.
func factsOf(status batchv1beta1.JobStatus) []any {
	return []any{
		"phase", status.Phase, "reason", status.Reason, "attempt", status.Attempt, "backoffCount", status.BackoffCount,
	}
}
