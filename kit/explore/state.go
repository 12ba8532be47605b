package explore

import (
	"fmt"
	"strings"
	"time"

	"tensorstack.dev/jobs/kit/driver"
	"tensorstack.dev/jobs/kit/model"
)

// state is a cluster with one job, and its controller. It contains everything that can influence future events. A state
// is a value: the data behind its pointers never changes, so that a copy is an independent state.
type state struct {
	// live has the objects in the API server and the trainings of pods.
	live model.Snapshot
	// shape is the current spec of the job.
	shape *model.Shape
	now   time.Time

	driver.State
	// old are the objects in another API server that lags. A new controller process can fill its caches with them. Nil
	// means that no API server lags.
	old model.Objects
	// waitsSince is in the memory of the controller: the time since which a status write is delayed. Zero means that no
	// write is delayed.
	waitsSince time.Time
	// delayedUntil is in the memory of the controller: the time until which the controller creates no pods. Zero means
	// that it can create pods.
	delayedUntil time.Time
	// progressWritten is in the memory of the controller: the time at which a status with new progress was last
	// written. Zero means never.
	progressWritten time.Time
	// changed is the last time at which admission removed a label from a pod that the current process of the controller
	// created. Zero means never.
	changed time.Time
	// away is set while no controller runs.
	away bool
	// closed is set if the queue of the job is closed.
	closed bool
	// reconcile is the reconcile in progress. Nil means none.
	reconcile *reconcileInProgress

	spent spent
	// counted is the number of failures that must count. If the field unclear is set, this number is only an upper
	// limit.
	counted int
	unclear bool
	// broken is the number of times that a device became unhealthy, minus the number of failures that the status has
	// recorded for unhealthy devices.
	broken int
	// inPlace is the number of restarts in place that have happened.
	inPlace int
	// isAnnounced is set if an event has reported the current stall.
	isAnnounced bool
	// succeededAt is the time at which the leader succeeded in a way that ends the job. Zero means that no such success
	// happened.
	succeededAt time.Time
}

// spent is how often each fault has happened.
type spent struct {
	failures, edits, crashes, aways, staleReads, lostEvents, conflicts, lates, changes, ticks int
	// nodes is how often faults of nodes and devices have happened. They do not count towards the limit on all faults: a
	// job avoids a node only after two of them, and other faults must still be possible after that.
	nodes int
}

func (s spent) total() int {
	return s.failures + s.edits + s.crashes + s.aways + s.staleReads + s.lostEvents + s.conflicts + s.lates +
		s.changes + s.ticks
}

// reconcileInProgress is a reconcile that has stopped between two of its calls. Its next call depends only on the
// previous answers. To continue the reconcile, the machine calls Reconcile again and gives the same answers.
type reconcileInProgress struct {
	// answers to the calls so far.
	answers []model.Answer
	// next is the next call.
	next model.Call
}

// The delays of the controller in an exploration.
const (
	statusInterval    = 5 * time.Second
	peerGrace         = 7 * time.Second
	dependentRetry    = 20 * time.Second
	avoidNodesFor     = 40 * time.Second
	avoidPatience     = 12 * time.Second
	completionMatters = 20 * time.Second // longer than the TTL of any explored job
)

// horizon is longer than any delay of the controller, except the delay that encoder.unread encodes. Longer intervals
// between two events make no difference.
const horizon = time.Minute

func (s *state) String() string {
	var b strings.Builder
	b.WriteString(s.live.Objects.Describe())
	if s.reconcile != nil {
		fmt.Fprintf(&b, "; the next call of the controller is %s", s.reconcile.next)
	}
	return b.String()
}
