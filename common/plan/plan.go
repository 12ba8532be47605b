// Package plan decides what the controller does about a job. Decisions are pure: the package uses no client, clock,
// logger or context, and the linter enforces this. So the same job, observation and time always give the same decision,
// and tests can explore all of them.
//
// Decide reads from top to bottom:
//
//   - interpret determines the current replicas of the job and their states (interpret.go, replica.go, elastic.go);
//   - choose selects the action for the job: hold, pause, end, wait for reports, run, ... (choose.go);
//   - the steps of that action fill in the decision (run.go, restart.go, reports.go, pause.go, hold.go, ending.go,
//     finish.go, cleanup.go, elsewhere.go, quota.go, and for pods that another controller admits, admission.go and
//     withdraw.go) and the resulting status (status.go, tasks.go, progress.go, stall.go, defaults.go);
//   - release removes the finalizer from the pods of leaders whose end is recorded (release.go);
//   - needsLiveRead reports whether the decision requires a live read (liveread.go).
package plan

import (
	"time"

	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// CacheDelay is how long the controller waits for a stale cache to catch up with the API server.
const CacheDelay = 500 * time.Millisecond

// Decide returns what to do about a job at the given time.
func Decide(job Job, seen Observation, now time.Time) Decision {
	if !job.Spec.RunsHere() && !job.Spec.RunsElsewhere() {
		return Decision{Status: job.Status} // another controller manages the job
	}
	job.Spec = policy.WithDefaults(job.Spec, job.Status.Defaults)
	v := interpret(job, seen, now)
	choice := v.choose()
	if choice.action == expire {
		return Decision{Status: job.Status, DeleteJob: true}
	}
	s := &steps{view: v, Decision: Decision{Status: copyOf(job.Status)}}
	s.deleteLostPods()
	switch choice.action {
	case leave, expire:
	case dispatch:
		s.dispatch()
	case cleanUp:
		s.Status.ObservedGeneration = job.Generation
		s.cleanUp()
	case hold:
		s.hold()
	case pause:
		s.pause()
	case end:
		s.Status.ObservedGeneration = job.Generation
		s.end()
	case decideEnd:
		s.begin()
		s.decideEnd(*choice.ending)
		s.end()
	case awaitReports:
		s.begin()
		s.awaitReports(choice.reportsDue)
	case stop:
		s.restart()
		s.stop()
		s.pause()
	case withdraw:
		s.begin()
		s.restart()
		s.withdraw(choice.why)
		s.run()
	case giveBack:
		s.begin()
		s.restart()
		s.giveBack()
		s.run()
	case run:
		s.begin()
		s.restart()
		s.run()
	}
	s.release()
	if job.Spec.ReportsProgress && job.Spec.RunsHere() && !job.Status.Finished() && !job.Deleting {
		s.reportStall(v)
		s.setProgress(v)
	}
	if s.hasSetTasks {
		s.fit()
	}
	s.recordDefaults(job)
	s.NeedsLiveRead = needsLiveRead(v, choice, s)
	if s.recordsFailure {
		s.Unclear = v.unclear()
		if s.Unclear == nil {
			s.Unclear = s.lacking
		}
	}
	return s.Decision
}

// steps fill in the decision of a chosen action.
type steps struct {
	// view of the job, after the restarts of the decision.
	view
	Decision
	// recordsFailure reports whether the decision records a failure, or restarts replicas because of one.
	recordsFailure bool
	// lacking are the main containers of the recorded failures whose output does not have what the program printed.
	lacking []Container
	// cleanedUp reports whether nothing is left to clean up, so that the tasks of the status are final.
	cleanedUp bool
	// hasSetTasks reports whether the decision updates the tasks of the status.
	hasSetTasks bool
	// lastRestarted is the last failure that makes the decision restart replicas.
	lastRestarted *replicaFailure
	// endedBy is the failure by which the decision ends the job. Nil means none.
	endedBy *replicaFailure
	// restartCounts counts the restarts of replicas by their type.
	restartCounts map[string]int32
	// refusal is why pods cannot be created: a template is invalid, or the job cannot get an admission. Nil means that
	// they can be created.
	refusal *report.RefusedError
	// waitsFor is why missing pods are not created yet. Nil means that they wait for nothing.
	waitsFor *Wait
	// announcesWait reports whether the decision emits an event about a wait for admission that does not end by itself.
	announcesWait bool
}

// deleteLostPods deletes the pods of lost nodes by force after NodeLostDelay. So the job recovers, or is cleaned up,
// without an administrator.
func (s *steps) deleteLostPods() {
	for _, pod := range s.seen.Pods {
		if check, ok := policy.NextNodeCheck(pod, s.job.NodeLostDelay, s.now); ok {
			s.wakeUrgentlyAt(check)
		}
		due, ok := policy.ForceDeletion(pod, s.job.NodeLostDelay)
		if !ok {
			continue
		}
		if s.now.Before(due) {
			s.wakeUrgentlyAt(due)
			continue
		}
		s.ForceDeletes = append(s.ForceDeletes, pod)
	}
	sortByName(s.ForceDeletes)
}
