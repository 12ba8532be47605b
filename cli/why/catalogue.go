package why

// state tells whether an object with a reason waits for somebody.
type state int

const (
	// unset: nobody has decided about the reason. Only events have no state.
	unset state = iota
	// fine: nobody has to do anything.
	fine
	// waits: the object waits, and continues automatically.
	waits
	// needsHelp: somebody must act before the object continues.
	needsHelp
	// final: a job or a replica has ended for this reason.
	final
)

// catalogue has the explanations of all reasons that jobs, PodGroups, Queues and TensorBoards have in conditions and in
// other parts of their status. A reason can be in several tables, because it can mean something else on another object.
// Tests compare the tables with docs/reference, which has all reasons.
var catalogue = []map[string]entry{
	initialized, running, stalled, paused, ended, failures, podGroups, queues, tensorBoard, tensorBoardUse,
}

// events has the explanations of the reasons of events.
var events = []map[string]entry{jobEvents, queuedPodEvents}

// Words describes the reason in the status of a job in a few words. It returns "" if no job has the reason there.
func Words(reason string) string {
	for _, table := range []map[string]entry{initialized, running, paused, ended, podGroups} {
		if words := table[reason].words; words != "" {
			return words
		}
	}
	return ""
}

// IsTrouble reports whether an object with a reason waits, needs help or has ended. docs/train/troubleshooting.md
// explains these reasons.
func IsTrouble(reason string) bool {
	for _, table := range catalogue {
		if table[reason].state > fine {
			return true
		}
	}
	return false
}
