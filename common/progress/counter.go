package progress

import (
	"fmt"
	"sync"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// RestartCounter counts the restarts in place of an attempt towards their limit. The launcher in the pod of the leader
// has one.
type RestartCounter struct {
	limit int

	mu    sync.Mutex
	count int
	// last are the last restarts, newest first, at most batchv1beta1.KeptRestartsInPlace.
	last []countedRestart
	// step is the last step at the last restart. It is nil before the first restart, and if the steps were unknown.
	step *int64
}

type countedRestart struct {
	restart Restart
	at      time.Time
}

// NewRestartCounter returns a counter with a limit of at least 0.
func NewRestartCounter(limit int) *RestartCounter { return &RestartCounter{limit: limit} }

// Count counts a restart, unless the limit is reached, or the training has made no new step since the last restart. It
// reports whether the processes can start again, with an explanation for the log. The parameter failed is the process
// that failed first. If it is invalid, the process is unknown. The parameter step is the last step of the training, -1
// if there was none, and nil if the steps are unknown.
func (c *RestartCounter) Count(failed Restart, step *int64, now time.Time) (restarts bool, explanation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A receiver that has started again has forgotten the steps.
	isStuck := c.step != nil && step != nil && *step <= *c.step && (*step >= 0 || *c.step < 0)
	switch {
	case c.count >= c.limit:
		return false, fmt.Sprintf("all restarts in place are used up (maxRestarts: %d)", c.limit)
	case isStuck:
		return false, "there was no new step since the last restart in place"
	}
	if !failed.isValid() {
		failed = Restart{}
	}
	c.count++
	c.last = append([]countedRestart{{failed, now}}, c.last[:min(len(c.last), batchv1beta1.KeptRestartsInPlace-1)]...)
	c.step = step
	return true, fmt.Sprintf("restart in place %d of %d (maxRestarts)", c.count, c.limit)
}

// State returns the counted restarts for the controller.
func (c *RestartCounter) State(now time.Time) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	restarts := Restarts{Count: int32(min(c.count, MaxRestarts))} //nolint:gosec // it fits
	for _, r := range c.last {
		restarts.Last = append(restarts.Last, r.restart.At(r.at, now))
	}
	return State{Restarts: restarts}
}
