package model

// Coverage selects how much of the conformance suite runs.
type Coverage int

const (
	// Quick stops the controller once at each write of each scenario. It explores jobs of one replica with one fault.
	Quick Coverage = iota
	// Added explores only the jobs that are marked for frameworks, with one fault. Some of them have two replicas.
	Added
	// Thorough injects each fault at each write. After a part of the writes, it restarts the controller with caches that
	// are all equally stale. It explores most small jobs with up to two faults, and runs random walks.
	Thorough
	// Full restarts the controller with stale caches after each write, also with only one stale cache, and hides each
	// write of a pod from the cache. It explores all small jobs with up to three faults.
	Full
)
