package model

// Coverage selects how much of the conformance suite runs.
type Coverage int

const (
	// Quick stops the controller once at each write of each scenario. It explores jobs of one replica with one fault.
	Quick Coverage = iota
	// Added stops the controller as Quick does. It explores only the jobs that are marked for frameworks, with one fault.
	// Some of these jobs have two replicas.
	Added
	// Thorough also injects Refuse, Lose and Postpone at each write. After some of the writes, it restarts the
	// controller with caches that are all equally stale. It explores most small jobs with one fault, and runs random
	// walks.
	Thorough
	// Full also hides each write of a pod from the cache. After each write, it restarts the controller with stale
	// caches, either all of them or only one. It explores all small jobs with up to three faults.
	Full
)
