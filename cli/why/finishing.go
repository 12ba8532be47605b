package why

import "fmt"

// finishing returns the entry for a job that ends as soon as its last pods have ended.
func finishing(v view, c condition) entry {
	e := entry{
		cause: "Some of its pods still run, and are ending or being deleted.",
		do:    "If a pod stays, its node does not answer, or a webhook rejects its deletion.",
		next:  []step{listPods}, see: seeEnding,
	}
	if late := overdue(c.message); late != "" {
		e.cause = fmt.Sprintf("Its end waits for %s, which should have ended before.", late)
		e.do = v.doAboutOverdue(late)
	}
	return e
}
