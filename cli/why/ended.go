package why

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// backoffLimitExceeded returns the entry for a job that has no restart left.
func backoffLimitExceeded(v view, _ condition) entry {
	e := entry{
		cause: "No restart is left, because runPolicy.backoffLimit is {limit}.",
		do:    "Fix the cause, delete the job, and create it again.",
		next:  []step{readFailed}, see: seeFailed,
	}
	if len(v.status.Failures) > 1 {
		e.next = append(e.next, step{purpose: "Read the other failures of the job", line: "kubectl describe {job}"})
	}
	e.next = append(e.next, deleteToRepeat)
	return e
}

// permanentFailure returns the entry for a failure after which the restart policy does not restart the replica.
func permanentFailure(v view, _ condition) entry {
	because := "Its restart policy {policy} does not restart it after such a failure."
	switch v.names["policy"] {
	case string(batchv1beta1.RestartPolicyNever):
		because = "Its restart policy Never restarts no replica that failed."
	case string(batchv1beta1.RestartPolicyExitCode):
		because = "Its restart policy ExitCode restarts only after the exit codes 130, 137, 138 and 143."
	}
	return entry{
		cause: because, do: "Fix the cause, delete the job, and create it again.",
		next: []step{readFailed, deleteToRepeat}, see: seeFailed,
	}
}

// deadlineExceeded returns the entry for a job that took too long.
func deadlineExceeded(_ view, c condition) entry {
	return entry{
		cause: sentence(c.message) + ". Waiting for a Queue, a node or an image counts, and waiting for Kueue does not.",
		do:    "Delete the job, and create it again with a longer runPolicy.activeDeadlineSeconds.",
		next:  []step{readLogs, deleteToRepeat}, see: seeFailed,
	}
}
