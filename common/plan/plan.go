// Package plan decides what the controller does about a job. Decisions are pure: the package uses no client, clock,
// logger or context, and the linter enforces this. So the same job, observation and time always give the same decision,
// and tests can explore all of them.
//
// Its folders are view (the state of the job), decide (the facts of the decision) and status (the status that results
// from them). Decide puts them together.
package plan

import (
	"time"

	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// Decide returns what to do about a job at the given time.
func Decide(job view.Job, seen view.Observation, now time.Time) Decision {
	if !job.Spec.RunsHere() && !job.Spec.RunsElsewhere() {
		return Decision{Status: job.Status} // another controller manages the job
	}
	job.Spec = policy.WithDefaults(job.Spec, job.Status.Defaults)
	facts, v := decide.Decide(job, seen, now)
	rendering := status.Render(v, facts, job.Status)
	// A cache might have the admission of an earlier run.
	isOldWait := rendering.AnnouncesWait && facts.Counts.JobAttempt() > 0
	return Decision{
		Changes:          facts.Changes,
		Status:           rendering.Status,
		Events:           rendering.Events,
		NeedsLiveRead:    facts.NeedsLiveRead || isOldWait,
		Unclear:          facts.Unclear,
		Restarts:         facts.Restarts,
		Stall:            facts.Stall.Reaction(),
		StartDuration:    rendering.StartDuration,
		RecoveryDuration: rendering.RecoveryDuration,
		WakeAt:           facts.WakeAt,
		Urgent:           facts.Urgent,
	}
}
