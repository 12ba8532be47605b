package controller

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// If an early call fails, only few calls are made. If all calls succeed, they take few round trips.
func TestInParallel(t *testing.T) {
	t.Parallel()
	const none = -1
	for name, tc := range map[string]struct {
		n int
		// failing is the index of the call that fails.
		failing int
		// goesOn is the result of mayGoOn for the error of the call that fails.
		goesOn                           bool
		wantCalls, wantAtOnce, wantTrips int
	}{
		"no calls take no time":                   {n: 0, failing: none},
		"one call takes one trip":                 {n: 1, failing: none, wantCalls: 1, wantAtOnce: 1, wantTrips: 1},
		"the concurrency doubles with each trip":  {n: 7, failing: none, wantCalls: 7, wantAtOnce: 4, wantTrips: 3},
		"the last trip makes the remaining calls": {n: 8, failing: none, wantCalls: 8, wantAtOnce: 4, wantTrips: 4},
		"the concurrency is limited":              {n: 3000, failing: none, wantCalls: 3000, wantAtOnce: 500, wantTrips: 14},
		"an error of call 1 stops after 1 call":   {n: 1000, failing: 0, wantCalls: 1, wantAtOnce: 1, wantTrips: 1},
		"an error of call 2 stops after 3 calls":  {n: 1000, failing: 1, wantCalls: 3, wantAtOnce: 2, wantTrips: 2},
		"an error of call 3 stops after 5 calls":  {n: 1000, failing: 2, wantCalls: 5, wantAtOnce: 3, wantTrips: 3},
		"an error of the last call stops nothing": {n: 7, failing: 6, wantCalls: 7, wantAtOnce: 4, wantTrips: 3},
		"an error that concerns no other call stops nothing": {
			n: 7, failing: 0, goesOn: true, wantCalls: 7, wantAtOnce: 4, wantTrips: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const trip = time.Second
				began := time.Now()
				refused := errors.New("refused")
				var mutex sync.Mutex
				calls, underWay, atOnce := 0, 0, 0
				counts := func(returns bool) {
					mutex.Lock()
					defer mutex.Unlock()
					if returns {
						underWay--
						return
					}
					calls++
					underWay++
					atOnce = max(atOnce, underWay)
				}
				err := inParallel(maxRequests, tc.n, func(error) bool { return tc.goesOn }, func(i int) error {
					counts(false)
					defer counts(true)
					time.Sleep(trip + time.Duration(i)) // calls return in the order of their indexes
					if i == tc.failing {
						return refused
					}
					return nil
				})
				if wantErr := tc.failing != none; wantErr != errors.Is(err, refused) {
					t.Errorf("unexpected error: %v", err)
				}
				diff(t, "calls", tc.wantCalls, calls)
				diff(t, "concurrent calls", tc.wantAtOnce, atOnce)
				diff(t, "round trips", tc.wantTrips, int(time.Since(began)/trip))
			})
		})
	}
}

// An error that stops the calls takes precedence over an error that does not. If several errors stop the calls,
// inParallel returns the error of the call with the lowest index, whichever call is faster.
func TestInParallelReturnsTheErrorOfTheFirstCall(t *testing.T) {
	t.Parallel()
	passed, first, second := errors.New("passed"), errors.New("first"), errors.New("second")
	for name, slow := range map[string]int{"the first call to fail is slow": 1, "the first call to fail is fast": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				err := inParallel(maxRequests, 3, func(err error) bool { return errors.Is(err, passed) }, func(i int) error {
					if i == slow {
						time.Sleep(time.Second)
					}
					return []error{passed, first, second}[i]
				})
				if !errors.Is(err, first) {
					t.Errorf("the error is %q, want %q", err, first)
				}
			})
		})
	}
}

func TestOneRequestAtATimeKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var calls []int
	if err := inParallel(1, 5, func(error) bool { return true }, func(i int) error {
		calls = append(calls, i)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	diff(t, "calls", []int{0, 1, 2, 3, 4}, calls)
}
