package plan

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Decision describes what to do about a job. The controller first writes Status if it differs and the write is due.
// Then it makes the changes. In this order a failure is counted before the pod that shows the failure is deleted. So a
// crash in between loses no failure and counts none twice.
type Decision struct {
	decide.Changes

	// Status is the new status of the job.
	Status batchv1beta1.JobStatus
	// Events are emitted after Status is written.
	Events []report.Event
	// NeedsLiveRead reports whether the controller must decide again on a live read, because a cache can be older than
	// the status.
	NeedsLiveRead bool
	// Unclear are the main containers whose full output can show that another failure was the root cause, or what the
	// program printed. The end of the output, which is in their status, does not show that. Unclear is empty unless the
	// decision accounts for a failure.
	Unclear []view.Container
	// Restarts are the restarts that the decision makes. If there are any, the status write is never delayed.
	Restarts []decide.Restart
	// Stall is how the controller reacts to a stall of the training that Status reports for the first time. Empty means
	// that there is no such stall.
	Stall batchv1beta1.ProgressPolicy
	// StartDuration is how long the job took from its creation until it ran. It is set when the job runs for the first
	// time.
	StartDuration *time.Duration
	// RecoveryDuration is how long the job took from a failure until every replica ran again, or until an elastic job
	// trained again. It is set when that happens.
	RecoveryDuration *time.Duration
	// WakeAt is when to reconcile the job again even if nothing happens. Zero means never.
	WakeAt time.Time
	// Urgent reports whether nodes of the job might be idle until WakeAt. Then the job is reconciled before new jobs.
	Urgent bool
}
