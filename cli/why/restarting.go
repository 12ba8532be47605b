package why

import "fmt"

// restarting returns the entry for a job that replaces replicas.
func restarting(v view, c condition) entry {
	if late := overdue(withoutCount(c.message)); late != "" {
		return entry{
			cause: fmt.Sprintf("Its restart waits for %s, which should be gone.", late),
			do:    v.doAboutOverdue(late), next: []step{listPods}, see: seeEnding,
		}
	}
	return entry{
		cause: "Replica " + quote(withoutCount(c.message)) + ".",
		do:    "The job continues automatically. The delay grows with each restart.",
		next:  []step{readFailed, watchJob}, see: seePending,
	}
}
