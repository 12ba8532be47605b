package sidecar

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// activity knows for how long nobody has looked at TensorBoard.
type activity struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	underway int
	last     time.Time
}

// newActivity counts from now on: a TensorBoard that has just started has not been idle.
func newActivity(c clock.PassiveClock) *activity { return &activity{clock: c, last: c.Now()} }

// begin notes a request. The function that it returns notes the request's end.
func (a *activity) begin() (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underway++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.underway--
		a.last = a.clock.Now()
	}
}

// idle is the time since the last request ended, 0 while one is under way.
func (a *activity) idle() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underway > 0 {
		return 0
	}
	return a.clock.Since(a.last)
}
