package why

// isPaused returns the entry for a paused job. If kubectl train run has not uploaded the code of the job yet, the
// entry does not advise to resume the job, because the job cannot run without the code.
func isPaused(v view, _ condition) entry {
	if !v.Job.LacksCode() {
		return entry{
			cause: "No pod of the job is left, and the job keeps its history.",
			do:    "It runs again when you resume it.",
			next:  []step{{purpose: "Let the job run again", line: "kubectl train resume {job}"}}, see: seePaused,
		}
	}
	return entry{
		cause: "The command kubectl train run starts it when it has uploaded the code.",
		do:    "If that command was killed, delete the job, and run the command again.",
		next: []step{
			{purpose: "See whether the code is being uploaded", line: "kubectl get pod {name}-upload"},
			{purpose: "Delete the job with what was uploaded", line: "kubectl train delete {job}"},
		}, see: seeUpload,
	}
}
