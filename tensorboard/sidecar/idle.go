package sidecar

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// activity records when TensorBoard was last used.
type activity struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	pending int
	last    time.Time
}

// newActivity returns an activity that starts now, so that a TensorBoard is not idle when it starts.
func newActivity(c clock.PassiveClock) *activity { return &activity{clock: c, last: c.Now()} }

// begin records the start of a request. The returned function records its end.
func (a *activity) begin() (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.pending--
		a.last = a.clock.Now()
	}
}

// idle returns the time since the last request ended. It returns 0 while a request is in progress.
func (a *activity) idle() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending > 0 {
		return 0
	}
	return a.clock.Since(a.last)
}
