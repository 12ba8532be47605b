package policy

import (
	"testing"
	"time"
)

func TestReportsDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// seen is how long ago we saw the failure.
		seen   time.Duration
		window time.Duration
		// want is how long from now to wait; 0 is not at all.
		want time.Duration
	}{
		"seen at this moment":                       {seen: 0, window: 2 * time.Second, want: 2 * time.Second},
		"seen a moment ago":                         {seen: 1500 * time.Millisecond, window: 2 * time.Second, want: 500 * time.Millisecond},
		"all have reported":                         {seen: 2 * time.Second, window: 2 * time.Second},
		"we were away since":                        {seen: time.Hour, window: 2 * time.Second},
		"no window, no waiting":                     {seen: 0, window: 0},
		"seen by a controller whose clock is ahead": {seen: -10 * time.Minute, window: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, waits := ReportsDue(now.Add(-tc.seen), now, tc.window)
			if waits != (tc.want > 0) {
				t.Errorf("waits: %t, want %t", waits, tc.want > 0)
			}
			if waits && due.Sub(now) != tc.want {
				t.Errorf("waits for %s, want %s", due.Sub(now), tc.want)
			}
		})
	}
}

func TestPrecedes(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, time.March, 1, 12, 0, second, 0, time.UTC) }
	exited := func(code int32, second int) Failure { return Failure{ExitCode: &code, Time: at(second)} }
	takenAway := func(second int) Failure { return Failure{Time: at(second), Ignored: true} }
	for name, tc := range map[string]struct{ first, second Failure }{
		"the earlier of two failures":                             {exited(1, 10), exited(137, 11)},
		"the one that was killed, in the same second":             {exited(137, 10), exited(1, 10)},
		"a member that was taken away before its peer failed":     {takenAway(10), exited(1, 20)},
		"a member that was taken away as its peer failed":         {takenAway(10), exited(1, 9)},
		"a failure well before a peer was taken away":             {exited(1, 10), takenAway(20)},
		"a member that is gone, nobody knows since when":          {Failure{Ignored: true}, exited(1, 10)},
		"the member that was taken away first":                    {takenAway(10), takenAway(20)},
		"a failure that was seen before its pod went, at no time": {Failure{ExitCode: new(int32(1))}, exited(1, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !Precedes(tc.first, tc.second) || Precedes(tc.second, tc.first) {
				t.Errorf("precedes: %t, is preceded: %t", Precedes(tc.first, tc.second), Precedes(tc.second, tc.first))
			}
		})
	}
}
