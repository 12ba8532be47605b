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
		"seen at this moment": {seen: 0, window: 2 * time.Second, want: 2 * time.Second},
		"seen a moment ago": {
			seen: 1500 * time.Millisecond, window: 2 * time.Second, want: 500 * time.Millisecond,
		},
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
	// told is a failure in which the launcher told the exit code of the process that failed first.
	told := func(code int32, second int) Failure {
		return Failure{ExitCode: new(int32(1)), Time: at(second), Report: launcher.Report{ExitCode: &code}}
	}
	lostPeers := func(f Failure) Failure {
		f.Report.LostPeers = true
		return f
	}
	sawTold := func(code int32, second int) Failure {
		f := told(code, second)
		f.Report.Time = at(second)
		return f
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
		"the one that was killed, before one with an exit code of its own":        {exited(137, 10), exited(3, 10)},
		"the one whose process was killed by a signal, as its launcher counts it": {told(-9, 10), exited(3, 10)},
		"the one whose process was killed, as a shell counts it":                  {told(137, 10), exited(3, 10)},
		"the one with an exit code of its own, in the same second":                {exited(3, 10), exited(1, 10)},
		"the one with an exit code of its own that the launcher told": {
			lostPeers(told(3, 11)), lostPeers(exited(1, 10)),
		},
		"the one whose exception is known, in the same second": {
			exited(1, 10), Failure{ExitCode: new(int32(1)), Time: at(10), Report: launcher.Report{IsUnclear: true}},
		},
		"a member that was taken away though its last output is about peers": {
			lostPeers(takenAway(10)), exited(1, 10),
		},
		"an exit code of its own that the launcher may have seen late":        {sawTold(3, 14), exited(1, 10)},
		"a failure before the time at which another launcher may have looked": {exited(1, 10), sawTold(3, 16)},
		"a failure before an exit code that was told at no time":              {exited(1, 10), told(3, 12)},
		"the one whose launcher saw it before its peer ended":                 {sawAt(at(9), 11), exited(1, 10)},
		"the one whose launcher saw it before its peer ended, in a time zone ahead": {
			sawAt(at(8).Add(330*time.Minute), 12), exited(1, 10),
		},
		"a failure before one that its launcher saw as it ended": {exited(1, 5), sawAt(at(11), 10)},
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

func TestNeitherPrecedes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	exited := func(code int32) Failure { return Failure{ExitCode: &code, Time: at} }
	printed := func(report launcher.Report) Failure {
		return Failure{ExitCode: new(int32(1)), Time: at, Report: report}
	}
	for name, tc := range map[string]struct{ a, b Failure }{
		"two failures that are alike":        {exited(1), exited(1)},
		"two that were killed":               {exited(137), exited(137)},
		"two with an exit code of their own": {exited(3), exited(3)},
		"two with outputs that may tell more": {
			printed(launcher.Report{IsUnclear: true}), printed(launcher.Report{IsUnclear: true}),
		},
		"an exit code, whoever tells it, and another": {printed(launcher.Report{ExitCode: new(int32(3))}), exited(5)},
		"two failures at no time, of which one launcher told a time": {
			Failure{ExitCode: new(int32(1)), Report: launcher.Report{Time: at}}, Failure{ExitCode: new(int32(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if Precedes(tc.a, tc.b) || Precedes(tc.b, tc.a) {
				t.Errorf("precedes: %t, is preceded: %t", Precedes(tc.a, tc.b), Precedes(tc.b, tc.a))
			}
		})
	}
}

func TestIsUnclear(t *testing.T) {
	t.Parallel()
	unclear := launcher.Report{IsUnclear: true}
	for name, tc := range map[string]struct {
		failure Failure
		want    bool
	}{
		"an output that may tell more": {
			failure: Failure{ExitCode: new(int32(1)), Report: unclear}, want: true,
		},
		"an output that tells all":                   {failure: Failure{ExitCode: new(int32(1))}},
		"a disruption, whatever the output may tell": {failure: Failure{Report: unclear, Ignored: true}},
		"an exit code that tells enough":             {failure: Failure{ExitCode: new(int32(137)), Report: unclear}},
		"an exit code of the launcher that tells enough": {
			failure: Failure{ExitCode: new(int32(1)), Report: launcher.Report{IsUnclear: true, ExitCode: new(int32(-9))}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.failure.IsUnclear(); got != tc.want {
				t.Errorf("IsUnclear is %t, want %t", got, tc.want)
			}
		})
	}
}
