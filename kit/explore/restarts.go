package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// inPlaceExplorations returns the small jobs whose containers restart in place, and whose pods lose labels.
func inPlaceExplorations() []exploration {
	restartsInPlace := []string{
		"fails", "is restarted in place",
		"loses its attempt label", "loses its job-kind label", "loses its job-name label",
	}
	return []exploration{
		{
			name:     "a job of one replica survives in-place restarts and label changes",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: restartsInPlace, edits: []edit{pauses},
			budget: allFaults, briefly: 2, inTurn: true,
		},
		{
			name:     "a job that restarts as a whole survives in-place restarts and label changes",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt label"}, edits: []edit{pauses, resumes},
			budget: spent{failures: 2, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a job whose replicas restart alone survives in-place restarts and label changes",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt label"}, edits: []edit{deletes},
			budget: spent{failures: 2, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "an elastic job with a rendezvous survives in-place restarts and label changes",
			shape:    model.Elastic(1, 2, "", model.Limit(1)),
			failures: []string{"is restarted in place", "loses its attempt label"},
			budget:   spent{failures: 2}, briefly: 2, inTurn: true,
		},
	}
}

// faultExplorations returns the small jobs without special features, with different restart policies and scopes. Most
// of them can meet every kind of fault.
func faultExplorations() []exploration {
	return []exploration{
		{
			name: "a job of one replica survives every kind of fault", added: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: []edit{pauses, deletes},
			budget: allFaults, briefly: 3,
		},
		{
			name:     "a job of one replica survives repeated failures",
			shape:    model.One(model.OnFailure, model.Limit(2)),
			failures: []string{"fails"},
			budget:   spent{failures: 3, crashes: 1, lostEvents: 1}, briefly: 3,
		},
		{
			name: "a job that restarts as a whole survives every kind of fault", added: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: losses, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job whose replicas restart alone survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: losses, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job whose replicas never restart survives every kind of fault",
			shape:    model.Two(model.Never, model.ScopeReplica),
			failures: losses, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job with the restart policy ExitCode survives every kind of fault",
			shape:    model.Two(model.ExitCode, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job with the restart policy Always survives every kind of fault",
			shape:    model.Two(model.Always, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "succeeds"}, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job survives the loss of nodes",
			shape:    model.Two(model.OnFailure, model.ScopeJob),
			failures: []string{"fails", "loses its node"}, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job with a deadline and a TTL survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Deadline(15), model.TimeToLive(10)),
			failures: []string{"fails"}, edits: userEdits,
			budget: allFaults, inTurn: true,
		},
		{
			name:     "a job that keeps all pods survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: losses, edits: userEdits,
			budget: allFaults,
		},
		{
			name:     "a job survives slow components",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 2, crashes: 1, ticks: 2}, briefly: 2,
		},
		{
			name:     "the user deletes a job whose replicas restart alone",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{deletes},
			budget: allFaults, briefly: 2, inTurn: true,
		},
		{
			name:     "the user pauses a job that restarts as a whole",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: allFaults, briefly: 2,
		},
	}
}
