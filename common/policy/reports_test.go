package policy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"tensorstack.dev/jobs/common/launcher"
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
	printed := func(file string, second int) Failure {
		data, err := os.ReadFile(filepath.Join("..", "launcher", "testdata", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return Failure{ExitCode: new(int32(1)), Time: at(second), Report: launcher.Read(string(data))}
	}
	sawAt := func(seen time.Time, second int) Failure {
		return Failure{ExitCode: new(int32(1)), Time: at(second), Report: launcher.Report{Time: seen}}
	}
	takenAway := func(second int) Failure { return Failure{Time: at(second), Ignored: true} }
	for name, tc := range map[string]struct{ first, second Failure }{
		"the earlier of two failures":                         {exited(1, 10), exited(137, 11)},
		"the one that was killed, in the same second":         {exited(137, 10), exited(1, 10)},
		"a member that was taken away before its peer failed": {takenAway(10), exited(1, 20)},
		"a member that was taken away as its peer failed":     {takenAway(10), exited(1, 9)},
		"a failure well before a peer was taken away":         {exited(1, 10), takenAway(20)},
		"a member that is gone, nobody knows since when": {
			Failure{Ignored: true}, exited(1, 10),
		},
		"the member that was taken away first": {takenAway(10), takenAway(20)},
		"torchrun's rank that was killed, though its peer's agent ended first": {
			printed("torch1-signal-0", 12), printed("torch1-signal-1", 10),
		},
		"torchrun's rank that ended with an exit code of its own, later": {
			printed("torch1-3-0", 12), printed("torch1-3-1", 10),
		},
		"torchrun's rank whose recorded exception is not about peers, later": {
			printed("torch1-recorded-1", 12), printed("torch1-recorded-0", 10),
		},
		"torch 2: the rank that was killed, though its peer's agent ended first": {
			printed("torch2-signal-1", 12), printed("torch2-signal-0", 10),
		},
		"torch 2: the rank that ended with an exit code of its own": {
			printed("torch2-3-1", 10), printed("torch2-3-0", 10),
		},
		"torch 2: the rank whose recorded exception is not about peers": {
			printed("torch2-recorded-0", 10), printed("torch2-recorded-1", 10),
		},
		"torch 2: the rank whose agent saw it end first, by its log": {
			printed("torch2-exception-1", 10), printed("torch2-exception-0", 10),
		},
		"a rank without a launcher whose exception is not about peers": {
			printed("plain1-exception-1", 12), printed("plain1-exception-0", 10),
		},
		"a member that was taken away before its peers lost it": {
			takenAway(12), printed("plain1-exception-0", 10),
		},
		"a killed container though its last output is about peers": {
			Failure{ExitCode: new(int32(137)), Time: at(10), Report: launcher.Report{LostPeers: true}}, exited(1, 10),
		},
		"the one whose launcher saw it first, though it ended later": {
			sawAt(at(8), 12), sawAt(at(9), 11),
		},
		"the one whose launcher saw it first, in another time zone": {
			sawAt(at(8).Add(330*time.Minute), 12), sawAt(at(9).Add(330*time.Minute), 11),
		},
		"the one that its launcher saw within the second before": {
			sawAt(at(10).Add(300*time.Millisecond), 10), sawAt(at(10).Add(400*time.Millisecond), 10),
		},
		"a failure of a second before, whatever another launcher says of last year": {
			exited(1, 9), sawAt(at(10).AddDate(-1, 0, 0), 10),
		},
		"a failure that was seen before its pod went, at no time": {
			Failure{ExitCode: new(int32(1))}, exited(1, 10),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !Precedes(tc.first, tc.second) || Precedes(tc.second, tc.first) {
				t.Errorf("precedes: %t, is preceded: %t", Precedes(tc.first, tc.second), Precedes(tc.second, tc.first))
			}
		})
	}
}
