package explore

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/kit/model"
)

// state is a cluster with one job, and its controller. It contains everything that can influence future events. A state
// is a value: the data behind its pointers never changes, so that a copy is an independent state.
type state struct {
	// live are the objects in the API server.
	live model.Snapshot
	// shape is the current spec of the job.
	shape *model.Shape
	now   time.Time

	// cache of the controller.
	cache model.Cache
	// old are the objects in another API server that lags. A controller that starts can read them. Nil means that no
	// API server lags.
	old model.Objects
	// dirty is set if the job is in the work queue. requeueAt is the time at which the job is added to it. Zero means
	// never.
	dirty     bool
	requeueAt time.Time
	// waitsSince is the time since which a status write is delayed, in the memory of the controller. Zero means that no
	// write is delayed.
	waitsSince time.Time
	// heldUntil is the time until which the controller creates no pods, in its memory. Zero means that it can create pods.
	heldUntil time.Time
	// progressWritten is when the status was last written with another progress, in the memory of the controller. Zero
	// means never.
	progressWritten time.Time
	// changed is the last time that admission removed a label from a pod that this process created. Zero means never.
	changed time.Time
	// away is set while no controller runs.
	away bool
	// late is the delayed write that the API server has not made yet. Nil means none. unseen is the pod that a delayed
	// write created since the last reconcile began.
	late   *model.LateWrite
	unseen types.UID
	// closed is set if the queue of the job is closed.
	closed bool
	// reconcile is the reconcile in progress. Nil means none.
	reconcile *reconcileInProgress

	spent spent
	// counted is the number of failures that must count. If unclear is set, it is only an upper limit.
	counted int
	unclear bool
	// stalls is the number of stalls that the status has recorded as failures.
	stalls int
	// broken is how often a device became unhealthy without a failure with this reason in the status.
	broken int
	// isAnnounced is set if an event reports the last stall.
	isAnnounced bool
	// succeededAt is the time at which the leader succeeded in a way that ends the job. Zero means that it did not.
	succeededAt time.Time
}

// spent is how often each fault has happened.
type spent struct {
	failures, edits, crashes, aways, staleReads, lostEvents, conflicts, lates, changes, ticks int
	// nodes are the faults of nodes and devices. They do not add to the total: a job avoids a node after two of them, and
	// must then survive other faults.
	nodes int
}

func (s spent) total() int {
	return s.failures + s.edits + s.crashes + s.aways + s.staleReads + s.lostEvents + s.conflicts + s.lates +
		s.changes + s.ticks
}

// reconcileInProgress is a Reconcile between two of its calls. Its next call depends only on the previous answers. To
// continue it, Reconcile is called again and gets the same answers.
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

// horizon is longer than any delay of the controller. Longer intervals between two events make no difference.
const horizon = time.Minute

func (s *state) String() string {
	var b strings.Builder
	b.WriteString(s.live.Objects.Describe())
	if s.reconcile != nil {
		fmt.Fprintf(&b, "; the next call of the controller is %s", s.reconcile.next)
	}
	return b.String()
}
