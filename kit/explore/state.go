package explore

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/kit/model"
)

// state is all that may decide what comes next: a cluster with one job, and its controller. It is a value: what it
// points to never changes, so that a copy is another state.
type state struct {
	// live is what the API server holds.
	live model.Snapshot
	// shape is the job as its user wrote it last.
	shape *model.Shape
	now   time.Time

	// cache of the controller.
	cache model.Cache
	// old is what another API server, which lags, would still show to a controller that starts; nil if none lags.
	old model.Objects
	// dirty is set if the controller was woken; wakeAt is when it wakes by itself, zero is never.
	dirty  bool
	wakeAt time.Time
	// waitsSince is since when the status waits to be written, as the controller remembers; zero is that it does not.
	waitsSince time.Time
	// heldUntil is until when no pods are created, as the controller remembers; zero is that they may be.
	heldUntil time.Time
	// changed is when admission last took a label off a pod that this process created; zero is never.
	changed time.Time
	// away is set while no controller runs.
	away bool
	// late is the write that the API server has yet to carry out, nil for none. unseen is the pod that such a write
	// created since the controller began to look last.
	late   *model.LateWrite
	unseen types.UID
	// closed is set if the queue of the job admits nothing.
	closed bool
	// reconcile that is under way; nil if none is.
	reconcile *reconcileInProgress

	spent spent
	// counted is how many failures the controller owes the user to count, at least if nothing makes that unclear.
	counted int
	unclear bool
	// succeededAt is when the leader succeeded in a way that ends the job; zero if it did not.
	succeededAt time.Time
}

// spent is how much of what may go wrong has gone wrong.
type spent struct {
	failures, edits, crashes, aways, staleReads, lostEvents, conflicts, lates, changes, ticks int
}

func (s spent) total() int {
	return s.failures + s.edits + s.crashes + s.aways + s.staleReads + s.lostEvents + s.conflicts + s.lates +
		s.changes + s.ticks
}

// reconcileInProgress is a Reconcile between two of its calls. What comes next depends on the answers that it got, so
// that it can be continued by being called again and given them again.
type reconcileInProgress struct {
	// answers to its calls so far.
	answers []model.Answer
	// next call that it makes.
	next model.Call
}

// The times that the controller of an exploration waits.
const (
	statusInterval    = 5 * time.Second
	peerGrace         = 7 * time.Second
	dependentRetry    = 20 * time.Second
	completionMatters = 20 * time.Second // for as long as jobs that expire are kept
)

// horizon is longer than any time that the controller waits for. How much longer ago something happened makes no
// difference.
const horizon = time.Minute

func (s *state) String() string {
	var b strings.Builder
	b.WriteString(s.live.Objects.Describe())
	if s.reconcile != nil {
		fmt.Fprintf(&b, "; the controller is about to %s", s.reconcile.next)
	}
	return b.String()
}
