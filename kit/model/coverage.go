package model

// Coverage is how much of the conformance suite runs.
type Coverage int

const (
	// Quick stops the controller once at each write of each scenario, and explores jobs of one replica in which one thing
	// goes wrong.
	Quick Coverage = iota
	// Added explores the jobs that frameworks explore, some of them with two replicas, in which one thing goes wrong.
	Added
	// Thorough injects each fault at each write, restarts with caches that are all equally stale, explores every small
	// job, in which up to two things go wrong, and walks at random.
	Thorough
	// Full also restarts with one stale cache and the others fresh, hides each write of a pod from the cache, and
	// explores lives in which up to three things go wrong.
	Full
)
