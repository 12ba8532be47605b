package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// countingExplorations returns the small jobs whose leader counts restarts in place.
func countingExplorations() []exploration {
	return []exploration{
		{
			name: "restarts in place are counted once", added: true,
			shape:    model.CountingRestarts(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures: []string{"restarts in place", "cannot be read", "fails"}, edits: []edit{pauses, resumes},
			budget: spent{failures: 3, edits: 1, crashes: 1, staleReads: 1, conflicts: 1}, briefly: 2,
		},
		{
			name:     "restarts in place of a leader that restarts alone are counted once",
			shape:    model.CountingRestarts(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures: []string{"restarts in place", "fails", "is deleted"},
			budget:   spent{failures: 3, crashes: 1, staleReads: 1}, briefly: 2, inTurn: true,
		},
		{
			name: "restarts in place are counted once while the training reports its progress",
			shape: model.CountingRestarts(reporting(model.One(model.OnFailure, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart)))),
			failures: []string{"restarts in place", "reports a step", "hangs", "fails"},
			budget:   spent{failures: 3, crashes: 1, conflicts: 1}, briefly: 2, inTurn: true,
		},
	}
}
