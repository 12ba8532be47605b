package plan

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Decision describes what to do about a job. The controller first writes Status, if Status differs from the present
// status of the job and the write is not delayed. Then it makes the changes. So a failure is counted before the
// failed pod is deleted. If the controller crashes in between, no failure is lost or counted twice.
type Decision struct {
	decide.Changes

	// Status is the new status of the job.
	Status batchv1beta1.JobStatus
	// Events are emitted after Status is written.
	Events []report.Event
	// NeedsLiveRead reports whether the controller must decide again on a live read, because a cache can be stale.
	NeedsLiveRead bool
	// Unclear are the main containers whose full output the controller must read. The status of a container has only the
	// end of its output. The earlier output might show that another failure was the root cause, or it might have the
	// lines that the failed program printed. Unclear is empty unless the decision records a failure.
	Unclear []view.Container
	// Restarts are the restarts that the decision makes. If there are any, the status write is never delayed.
	Restarts []decide.Restart
	// Stall is the reaction of the controller to a stall of the training: Restart if the stall restarts or ends the job,
	// and Notify if the stall begins and the job goes on. Empty means no reaction.
	Stall batchv1beta1.ProgressPolicy
	// StartDuration is the time from the creation of the job until the job runs for the first time. If the job was
	// paused before it ran, the time counts from its start after the pause. Nil unless the job runs for the first time
	// now.
	StartDuration *time.Duration
	// RecoveryDuration is how long the job took from a failure to its recovery: until every replica ran again, or until
	// an elastic job trained again. Nil unless the job recovers now.
	RecoveryDuration *time.Duration
	// RequeueAt is when to reconcile the job again even if nothing happens. Zero means never.
	RequeueAt time.Time
	// Urgent reports whether nodes of the job might be idle until RequeueAt. If so, the job is reconciled before new
	// jobs.
	Urgent bool
}
