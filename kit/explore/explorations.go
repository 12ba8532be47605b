package explore

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// explorations returns the small jobs that are explored. Explorations of a subject with a file of its own, such as
// held.go, are in that file.
func explorations() []exploration {
	return slices.Concat(
		faultExplorations(),
		heldExplorations(),
		pauseExplorations(),
		admissionExplorations(),
		elasticExplorations(),
		staleExplorations(),
		gangExplorations(),
		awayExplorations(),
		lateExplorations(),
		inPlaceExplorations(),
		ownerExplorations(),
		kueueExplorations(),
		quotaExplorations(),
		progressExplorations(),
		nodeExplorations(),
	)
}

// Budgets of faults that many explorations have.
var (
	allFaults = spent{failures: 2, edits: 1, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1}
	twoEdits  = spent{failures: 2, edits: 2, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1}
)

// Failures, changes by the user, and changes to a queue that several explorations have.
var (
	losses        = []string{"fails", "is deleted", "is preempted", "is deleted by force"}
	userEdits     = []edit{pauses, deletes, deletesInForeground}
	resumingEdits = []edit{pauses, resumes, resizes}
	queueEdits    = []edit{closesQueue, opensQueue, deletesGroup}
)

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
			budget: allFaults, most: 2,
		},
		{
			name:     "a job whose replicas restart alone survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: losses, edits: userEdits,
			budget: allFaults, most: 2,
		},
		{
			name:     "a job whose replicas never restart survives every kind of fault",
			shape:    model.Two(model.Never, model.ScopeReplica),
			failures: losses, edits: userEdits,
			budget: allFaults, most: 2,
		},
		{
			name:     "a job with the restart policy ExitCode survives every kind of fault",
			shape:    model.Two(model.ExitCode, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: userEdits,
			budget: allFaults, most: 2,
		},
		{
			name:     "a job with the restart policy Always survives every kind of fault",
			shape:    model.Two(model.Always, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "succeeds"}, edits: userEdits,
			budget: allFaults, most: 2,
		},
		{
			name:     "a job survives the loss of nodes",
			shape:    model.Two(model.OnFailure, model.ScopeJob),
			failures: []string{"fails", "loses its node"}, edits: userEdits,
			budget: allFaults, most: 2,
		},
		{
			name:     "a job with a deadline and a TTL survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Deadline(15), model.TimeToLive(10)),
			failures: []string{"fails"}, edits: userEdits,
			budget: allFaults, most: 2, inTurn: true,
		},
		{
			name:     "a job that keeps all pods survives every kind of fault",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: losses, edits: userEdits,
			budget: allFaults, most: 2,
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
			budget: allFaults, briefly: 2, most: 4,
		},
	}
}

// pauseExplorations returns the small jobs that are paused and resumed.
func pauseExplorations() []exploration {
	return []exploration{
		{
			name:     "a job that restarts as a whole is paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resumingEdits,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a job whose replicas restart alone is paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resumingEdits,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a job is created paused and resumed later",
			shape:    model.Pausing(model.Two(model.OnFailure, model.ScopeJob)),
			failures: []string{"fails", "is deleted"}, edits: resumingEdits,
			budget: twoEdits, most: 3,
		},
	}
}

// elasticExplorations returns the small jobs that are elastic.
func elasticExplorations() []exploration {
	return []exploration{
		{
			name: "an elastic job whose replicas restart alone is paused and scaled", added: true,
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: losses, edits: []edit{pauses, scales(1), scales(2)},
			budget: allFaults, most: 2,
		},
		{
			name: "an elastic job with a rendezvous is paused and scaled", added: true,
			shape:    model.Elastic(1, 1, "", model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: []edit{pauses, scales(2), scales(1)},
			budget: allFaults, most: 3,
		},
		{
			name:     "an elastic job is scaled down and up again",
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{scales(1), scales(2), pauses, resumes},
			budget: twoEdits, most: 2,
		},
		{
			name:     "an elastic job has too few replicas left",
			shape:    model.Elastic(2, 2, model.ScopeReplica, model.Limit(0)),
			failures: []string{"fails", "is deleted by force"}, edits: userEdits,
			budget: allFaults, most: 2,
		},
	}
}

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

// gangExplorations returns the small jobs that a Queue admits.
func gangExplorations() []exploration {
	return []exploration{
		{
			name: "a gang of one replica survives a queue that closes unseen", added: true,
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, queueEdits: queueEdits,
			budget: spent{failures: 1, edits: 1, staleReads: 1, lostEvents: 1}, briefly: 2,
		},
		{
			name:     "a gang whose replicas restart alone survives every kind of fault",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails", "is deleted"}, edits: userEdits, queueEdits: queueEdits,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a gang that restarts as a whole is paused and resumed",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures: []string{"fails"}, edits: resumingEdits, queueEdits: queueEdits,
			budget: twoEdits, most: 2,
		},
		{
			name:     "a gang that is elastic is scaled",
			shape:    model.InQueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{scales(1), scales(2)}, queueEdits: queueEdits,
			budget: twoEdits, most: 2,
		},
	}
}

// kueueExplorations returns the small jobs that Kueue admits.
func kueueExplorations() []exploration {
	return []exploration{
		{
			name:     "a job of one replica that Kueue admits survives every fault",
			shape:    model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{pauses, resumes, deletes},
			kueueEdits: []edit{evicts, deletesWorkload, closesQueue, opensQueue},
			budget:     spent{failures: 1, edits: 2, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1},
			briefly:    2, inTurn: true,
		},
		{
			name:       "a job of two replicas that Kueue admits survives evictions",
			shape:      model.InKueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts, deletesWorkload},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:       "a collective that Kueue admits restarts within its quota",
			shape:      model.InKueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:       "an elastic job that Kueue admits with fewer replicas survives evictions",
			shape:      model.InKueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a held leader of a job that Kueue admits survives evictions",
			shape:    model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			holds:    true,
			failures: []string{"is deleted", "is deleted by force"}, kueueEdits: []edit{evicts, deletesWorkload},
			budget: spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
	}
}
