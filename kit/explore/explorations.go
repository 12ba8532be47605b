package explore

import (
	"slices"
)

// explorations returns the small jobs that are explored. Each of them is in the file of its behavior.
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
		countingExplorations(),
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
