package controller

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A refusal that all calls would meet costs few, and many calls take few round trips.
func TestInParallel(t *testing.T) {
	t.Parallel()
	const none = -1
	for name, tc := range map[string]struct {
		n int
		// failing is the call that fails.
		failing int
		// goesOn past that.
		goesOn                           bool
		wantCalls, wantAtOnce, wantTrips int
	}{
		"nothing to do":                    {n: 0, failing: none},
		"one call":                         {n: 1, failing: none, wantCalls: 1, wantAtOnce: 1, wantTrips: 1},
		"twice as many with each trip":     {n: 7, failing: none, wantCalls: 7, wantAtOnce: 4, wantTrips: 3},
		"a last trip with few":             {n: 8, failing: none, wantCalls: 8, wantAtOnce: 4, wantTrips: 4},
		"no more at once than the limit":   {n: 3000, failing: none, wantCalls: 3000, wantAtOnce: 500, wantTrips: 14},
		"a refusal of the first costs one": {n: 1000, failing: 0, wantCalls: 1, wantAtOnce: 1, wantTrips: 1},
		"a refusal in the second trip":     {n: 1000, failing: 1, wantCalls: 3, wantAtOnce: 2, wantTrips: 2},
		"a refusal at the end of that":     {n: 1000, failing: 2, wantCalls: 5, wantAtOnce: 3, wantTrips: 3},
		"a refusal of the last":            {n: 7, failing: 6, wantCalls: 7, wantAtOnce: 4, wantTrips: 3},
		"a refusal that concerns no other": {n: 7, failing: 0, goesOn: true, wantCalls: 7, wantAtOnce: 4, wantTrips: 3},
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
				err := inParallel(tc.n, func(error) bool { return tc.goesOn }, func(i int) error {
					counts(false)
					defer counts(true)
					time.Sleep(trip + time.Duration(i)) // they return in their order
					if i == tc.failing {
						return refused
					}
					return nil
				})
				if wantErr := tc.failing != none; wantErr != errors.Is(err, refused) {
					t.Errorf("unexpected error: %v", err)
				}
				diff(t, "calls", tc.wantCalls, calls)
				diff(t, "calls at once", tc.wantAtOnce, atOnce)
				diff(t, "round trips", tc.wantTrips, int(time.Since(began)/trip))
			})
		})
	}
}

// The error that stops it is worth more than one that it went past, and the first of many is the same whichever call is
// faster.
func TestInParallelReturnsTheErrorOfTheFirstCall(t *testing.T) {
	t.Parallel()
	passed, first, second := errors.New("passed"), errors.New("first"), errors.New("second")
	for name, slow := range map[string]int{"that is slow": 1, "that is fast": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				err := inParallel(3, func(err error) bool { return errors.Is(err, passed) }, func(i int) error {
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

func TestSooner(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, wait, want time.Duration
	}{
		"nothing was asked for before": {wait: time.Minute, want: time.Minute},
		"an earlier time wins":         {before: time.Hour, wait: time.Minute, want: time.Minute},
		"a later time does not":        {before: time.Second, wait: time.Minute, want: time.Second},
		"the past is now, not never":   {wait: -time.Minute, want: time.Millisecond},
		"now is now, not never":        {want: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "result", reconcile.Result{RequeueAfter: tc.want},
				sooner(reconcile.Result{RequeueAfter: tc.before}, tc.wait))
		})
	}
}
