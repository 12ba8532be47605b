// Package plan decides what the controller does about a job. Decisions are pure: the package uses no client, clock,
// logger or context, and the linter enforces this. So the same job, observation and time always give the same
// decision, and tests can check many cases quickly.
//
// Decide combines three subpackages: view has the state of the job, decide has the facts of the decision, and status
// has the status that results from the facts. Package admission decides about the PodGroup or the Workload of a job.
// Package tensorboard decides about the TensorBoard of a job.
package plan

import (
	"time"

	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// Decide returns the decision about a job at the given time.
func Decide(job view.Job, seen view.Observation, now time.Time) Decision {
	if !job.Spec.RunsHere() && !job.Spec.RunsElsewhere() {
		return Decision{Rendering: status.Rendering{Status: job.Status}} // another controller manages the job
	}
	job.Spec = policy.WithDefaults(job.Spec, job.Status.Defaults)
	facts, v := decide.Decide(job, seen, now)
	rendering := status.Render(v, facts, job.Status)
	// An event can be about a wait that is already over, because a cache might still have the admission of an earlier
	// attempt.
	isOldWait := rendering.AnnouncesWait && facts.Counts.JobAttempt() > 0
	facts.NeedsLiveRead = facts.NeedsLiveRead || isOldWait
	return Decision{facts, rendering}
}
