package plan

import (
	"time"

	"tensorstack.dev/jobs/common/policy"
)

// action is what the controller does about a job. It decides which steps follow.
type action int

const (
	// leave: the user has deleted the job. What it owns is garbage collected.
	leave action = iota
	// expire: the time to live of the finished job is over. It is deleted.
	expire
	// cleanUp: the job has finished. Its pods are deleted as its clean-up policy says.
	cleanUp
	// hold: the job has nothing to run. Its replicas stay as they are.
	hold
	// pause: the job is to be paused and no attempt runs. It has no pods, or loses the last of them.
	pause
	// end: how the job ends is decided. It finishes when nothing of it runs any more.
	end
	// decideEnd: the job is to end now.
	decideEnd
	// awaitReports: a replica failed, which restarts all replicas. The reports of its peers show the root cause.
	awaitReports
	// stop: the job is to be paused and an attempt runs. Its end is recorded before the first pod is deleted.
	stop
	// run: the replicas are restarted and created as needed.
	run
)

// choice is an action, and what its steps need to know.
type choice struct {
	action action
	// ending is how the job ends, if the action is decideEnd.
	ending *ending
	// reportsDue is until when the controller waits for reports, if the action is awaitReports.
	reportsDue time.Time
}

// choose returns what the controller does about the job. The first rule that applies counts.
func (v *view) choose() choice {
	isPausing := v.job.Spec.RunMode.Pausing()
	switch {
	//mutant:a job that is being deleted creates pods => case false:
	case v.job.Deleting:
		//equivalent:zero instead of choice{action: leave} => leave is the zero action
		return choice{action: leave}
	case v.isExpired():
		return choice{action: expire}
	//mutant:a finished job goes on => case v.job.Status.Finished() && v.job.Status.Phase == "Failed":
	case v.job.Status.Finished():
		return choice{action: cleanUp}
	//mutant:a job whose end is decided goes on => case false:
	case v.job.Status.Decided():
		return choice{action: end}
	case v.isPausedBeforeStart():
		return choice{action: pause}
	}
	due, waits := v.reportsDue()
	if end := v.ending(waits); end != nil {
		return choice{action: decideEnd, ending: end}
	}
	if len(v.gang.Members) == 0 && !isPausing {
		return choice{action: hold}
	}
	if waits {
		return choice{action: awaitReports, reportsDue: due}
	}
	if isPausing {
		return choice{action: stop}
	}
	return choice{action: run}
}

// isExpired reports whether the time to live of a finished job is over. The pods of lost nodes go first: once the job
// is gone, nobody deletes them by force. Pods that are held are released first.
func (v *view) isExpired() bool {
	expiry, ok := policy.Expiry(v.job.Spec.RunPolicy, v.job.Status.CompletionTime)
	return ok && v.job.Status.Finished() && !v.now.Before(expiry) && !v.hasLostPods() && !v.hasHeldPods()
}
