// Package plan decides what the controller does about a job. Decisions are pure: the package uses no client, clock,
// logger or context, and the linter enforces this. So the same job, observation and time always give the same decision,
// and tests can explore all of them.
//
// Its folders are view (what is), decide (what happens) and status (how it reads). Decide puts them together.
package plan

import (
	"time"

	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// CacheDelay is how long the controller waits for a stale cache to catch up with the API server.
const CacheDelay = 500 * time.Millisecond

// Decide returns what to do about a job at the given time.
func Decide(job view.Job, seen view.Observation, now time.Time) Decision {
	if !job.Spec.RunsHere() && !job.Spec.RunsElsewhere() {
		return Decision{Status: job.Status} // another controller manages the job
	}
	job.Spec = policy.WithDefaults(job.Spec, job.Status.Defaults)
	facts, v := decide.Decide(job, seen, now)
	reads := status.Render(v, facts, job.Status)
	// A cache might have the admission of an earlier run.
	isOldWait := reads.AnnouncesWait && facts.Counts.JobAttempt() > 0
	return Decision{
		Changes:          facts.Changes,
		Status:           reads.Status,
		Events:           reads.Events,
		NeedsLiveRead:    facts.NeedsLiveRead || isOldWait,
		Unclear:          facts.Unclear,
		Restarts:         facts.Restarts,
		Stall:            facts.Stall.Reaction(),
		StartDuration:    reads.StartDuration,
		RecoveryDuration: reads.RecoveryDuration,
		WakeAt:           facts.WakeAt,
		Urgent:           facts.Urgent,
	}
}
