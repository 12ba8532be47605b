package explore

import "tensorstack.dev/jobs/kit/model"

// staleExplorations returns the small jobs whose controller can start with caches that are older than the caches of the
// previous process.
func staleExplorations() []exploration {
	return []exploration{
		{
			name: "a job of one replica survives a controller that starts with stale caches", added: true,
			shape: model.One(model.OnFailure, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1}, briefly: 3,
		},
		{
			name:  "a job that restarts as a whole survives a controller that starts with stale caches",
			shape: model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{pauses},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1},
		},
		{
			name:  "a job whose replicas restart alone survives a controller that starts with stale caches",
			shape: model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)), timeTravel: true,
			failures: []string{"fails"}, edits: []edit{deletes},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1}, briefly: 3, inTurn: true,
		},
	}
}
