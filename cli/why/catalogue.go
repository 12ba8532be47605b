package why

// state tells whether an object with a reason waits for somebody.
type state int

const (
	// fine: nobody has to do anything.
	fine state = iota
	// waits: the object waits, and continues automatically.
	waits
	// needsHelp: somebody must act before the object continues.
	needsHelp
	// final: a job or a replica has ended for this reason.
	final
)

// catalogue has the explanations of all reasons that jobs, PodGroups, Queues and TensorBoards have in conditions, in
// other parts of their status, and in events. A reason can be in several tables, because it can mean something else on
// another object. Tests compare the tables with docs/reference, which has all reasons.
var catalogue = []map[string]entry{
	initialized, running, stalled, paused, ended, failures, jobEvents, podGroups, queues, queuedPodEvents, tensorBoard,
	tensorBoardUse,
}

// Words describes the reason of a job in a few words. It returns "" if no job has the reason in its status.
func Words(reason string) string {
	for _, table := range catalogue {
		if words := table[reason].words; words != "" {
			return words
		}
	}
	return ""
}

// IsTrouble reports whether an object with a reason waits, needs help or has ended. docs/troubleshooting.md explains
// these reasons.
func IsTrouble(reason string) bool {
	for _, table := range catalogue {
		if table[reason].state != fine {
			return true
		}
	}
	return false
}
