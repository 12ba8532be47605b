package plan

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// action is what the controller does about a job. It determines which steps fill in the decision.
type action int

const (
	// leave: the user has deleted the job. The objects that it owns are garbage collected.
	leave action = iota
	// expire: the time to live of the finished job is over, so the job is deleted.
	expire
	// dispatch: the job runs in another cluster. Only its admission is requested here.
	dispatch
	// cleanUp: the job has finished. Its pods are deleted according to its clean-up policy.
	cleanUp
	// hold: the job has no replicas to run. Existing pods stay as they are.
	hold
	// pause: the user has requested a pause and no attempt runs. Remaining pods are deleted.
	pause
	// end: the end of the job is decided. The job finishes when none of its pods runs any more.
	end
	// decideEnd: the job ends now. The status records how.
	decideEnd
	// awaitReports: a failure restarts all replicas. The reports of the peers show its root cause.
	awaitReports
	// stop: the user has requested a pause and an attempt runs. The end of the attempt is recorded before the first pod
	// is deleted.
	stop
	// withdraw: the admission of the job is withdrawn and replicas run. The end of the attempt is recorded before the
	// first pod is deleted.
	withdraw
	// giveBack: a ResourceQuota has no room for replicas that the job needs, and the others only wait for them. The end of
	// the attempt is recorded before the first pod is deleted.
	giveBack
	// run: replicas are restarted and created as needed.
	run
)

// choice is an action and the arguments of its steps.
type choice struct {
	action action
	// ending is how the job ends, if the action is decideEnd.
	ending *ending
	// reportsDue is when the controller stops waiting for reports, if the action is awaitReports.
	reportsDue time.Time
	// why is why the admission is withdrawn, if the action is withdraw.
	why string
}

// choose returns the action for the job. The first case that matches applies.
func (v *view) choose() choice {
	isPausing := v.job.Spec.RunMode.Pausing()
	switch {
	case v.job.Deleting:
		return choice{action: leave}
	case v.isExpired():
		return choice{action: expire}
	case v.job.Spec.RunsElsewhere():
		return choice{action: dispatch}
	case v.job.Status.Finished():
		return choice{action: cleanUp}
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
	if why := v.whyStop(); why != "" {
		return choice{action: withdraw, why: why}
	}
	if due, ok := v.giveBackDue(); ok && !v.now.Before(due) {
		return choice{action: giveBack}
	}
	return choice{action: run}
}

// isExpired reports whether to delete a finished job because its time to live is over. The job stays until it has no
// pods on lost nodes, because nobody deletes them by force once the job is gone. It also stays until held pods are
// released.
func (v *view) isExpired() bool {
	expiry, ok := v.expiry(v.job.Status)
	return ok && v.job.Status.Finished() && !v.now.Before(expiry) && !v.hasLostPods() && !v.hasHeldPods()
}

// expiry returns when the job with the given status expires. It returns false if it does not expire. A copy of a job of
// another cluster is deleted by MultiKueue, after it has copied the status back.
func (v *view) expiry(status batchv1beta1.JobStatus) (time.Time, bool) {
	if v.job.IsCopy {
		return time.Time{}, false
	}
	return policy.Expiry(v.job.Spec.RunPolicy, status.CompletionTime)
}
