// Package plan decides what to do about a job. Its decisions are pure: they know no client, clock, logger or context,
// which the linter checks. So the same job, observation and time always give the same decision, and tests can explore
// all of them.
//
// Decide reads from top to bottom:
//
//   - interpret works out which replicas the job has, and how they stand (interpret.go, replica.go, elastic.go);
//   - choose picks what the job does: hold, pause, end, wait for reports, run, ... (choose.go);
//   - the steps of that action fill in the decision (run.go, restart.go, reports.go, pause.go, hold.go, ending.go,
//     finish.go, cleanup.go, and admission.go for pods that another controller admits), and the status that follows
//     (status.go, tasks.go);
//   - release releases the pods of leaders whose end is on record (release.go);
//   - needsLiveRead tells whether the decision may rely on a cache (liveread.go).
package plan

import (
	"time"

	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// CacheDelay is how long a cache gets to catch up with the API server after it was seen to lag.
const CacheDelay = 500 * time.Millisecond

// Decide decides what to do about a job.
func Decide(job Job, seen Observation, now time.Time) Decision {
	v := interpret(job, seen, now)
	choice := v.choose()
	if choice.action == expire {
		return Decision{Status: job.Status, DeleteJob: true}
	}
	s := &steps{view: v, Decision: Decision{Status: copyOf(job.Status)}}
	s.deleteLostPods()
	switch choice.action {
	//equivalent:without case leave => nothing is done without a case
	//equivalent:without case expire => as above
	case leave, expire:
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
	case run:
		s.begin()
		s.restart()
		s.run()
	}
	s.release()
	if s.hasSetTasks {
		s.fit()
	}
	s.NeedsLiveRead = needsLiveRead(v, choice, s)
	if s.recordsFailure {
		s.Unclear = v.unclear()
	}
	return s.Decision
}

// steps fill in the decision of a chosen action.
type steps struct {
	// view of the job, after the restarts that the decision makes.
	view
	Decision
	// recordsFailure reports whether the decision puts a failure on record, or restarts replicas because of one.
	recordsFailure bool
	// cleanedUp reports whether nothing is left to clean up, so that the tasks of the status are final.
	cleanedUp bool
	// hasSetTasks reports whether the decision writes how the replicas stand now.
	hasSetTasks bool
	// lastRestarted is the last failure that the decision answers with a restart.
	lastRestarted *replicaFailure
	// restartCounts counts the restarts of replicas by their type.
	restartCounts map[string]int32
	// refusal is why pods cannot be created: a template is faulty, or the job can have no admission.
	refusal *report.RefusedError
	// waitsFor is what missing pods wait for. Nil means nothing.
	waitsFor *Wait
	// announcesWait reports whether the decision has an event about an admission that the job does not get.
	announcesWait bool
}

// deleteLostPods deletes the pods that lost nodes hold, once their time is over. So the job recovers, or is cleaned up,
// without an administrator.
func (s *steps) deleteLostPods() {
	for _, pod := range s.seen.Pods {
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
