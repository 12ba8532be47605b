package why

import (
	"fmt"
	"regexp"
	"strings"
)

// who returns the subject of a sentence about the last failure: the replica, with its rank and its node.
func (v view) who() string {
	failure := v.Job.LastFailure()
	return "Replica " + described(failure.Replica, failure.Rank, failure.Node)
}

// described returns the name of a replica with its rank and its node, as far as they are known.
func described(replica string, rank *int32, node string) string {
	var facts []string
	if rank != nil {
		facts = append(facts, fmt.Sprintf("rank %d", *rank))
	}
	if node != "" {
		facts = append(facts, "on node "+node)
	}
	if len(facts) == 0 {
		return replica
	}
	return replica + " (" + strings.Join(facts, ", ") + ")"
}

// failedWithError returns the entry for a program that ended with an error.
func failedWithError(v view, _ condition) entry {
	e := entry{cause: "{who} failed: {message}.", next: []step{readFailed}, see: seeFailed}
	failure := v.Job.LastFailure()
	if failure == nil || failure.ExitCode == nil {
		e.next = append(e.next, podEventsOf)
		return e
	}
	code := *failure.ExitCode
	switch {
	case failure.RankSignal != "":
		e.cause = fmt.Sprintf("{who} ended because its process was ended by %s%s.", clean(failure.RankSignal),
			meaningOfSignal(failure.RankSignal))
		e.do = v.doAboutSharedMemory(*failure)
		return e
	case failure.RankExitCode != nil:
		code = *failure.RankExitCode
	}
	e.cause = fmt.Sprintf("{who} ended with exit code %d%s.", code, meaningOfCode(code))
	if init := initFailed.FindStringSubmatch(firstLine(failure.Message)); init != nil {
		e.cause = fmt.Sprintf("{who} failed before its program began: its init container %s ended with exit code %d%s.",
			clean(init[1]), code, meaningOfCode(code))
	}
	e.do = v.doAboutProgram(failure.Message, sentences(v.doAboutMesh(*failure), v.doAboutSharedMemory(*failure)))
	return e
}

// initFailed matches the message of the controller about an init container that failed.
var initFailed = regexp.MustCompile(`^the init container (\S+) failed$`)

// evicted returns the entry for a replica that was evicted. An eviction counts towards backoffLimit only if the pod
// exceeded a limit of its own.
func evicted(v view, _ condition) entry {
	e := entry{
		cause: "{who} was evicted: {message}.",
		do:    "Its node is being drained, has a taint with the effect NoExecute, or is short of a resource.",
		next:  []step{podEventsOf, describeNode}, see: seeFailed,
	}
	if failure := v.Job.LastFailure(); failure != nil && failure.Counted {
		e.do = "Write less to the local disk, mount a claim for checkpoints and data, or raise the limit of ephemeral " +
			"storage or the sizeLimit of the volume."
		e.next = []step{podEventsOf}
	}
	return e
}

// otherFailure returns the entry for a failure with a reason of the kubelet that is not in the table failures.
func (v view) otherFailure() entry {
	failure := v.Job.LastFailure()
	e := entry{
		cause: fmt.Sprintf("{who} failed (%s): {message}.", clean(failure.Reason)),
		next:  []step{readFailed, podEventsOf}, see: seeFailed,
	}
	if neverRan(failure.Reason) {
		e.cause = "{who} could not start its program: " + startWords(firstLine(failure.Message)) + "."
		e.next = []step{podEventsOf}
		e.do = v.doAboutProgram(failure.Message, "Check the command in the template, and whether the image has it.")
		e.fix = "correct the command"
	}
	return e
}

// neverRan reports whether a reason of the kubelet means that the program could not be started.
func neverRan(reason string) bool { return reason == "StartError" || reason == "ContainerCannotRun" }
