package policy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"tensorstack.dev/jobs/common/trainlog"
)

func TestRootCauseDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// seen is the time since the controller saw the failure.
		seen   time.Duration
		window time.Duration
		// want is the remaining time to wait; 0 means none.
		want time.Duration
	}{
		"the reports of a new failure are awaited for the whole window": {
			seen: 0, window: 2 * time.Second, want: 2 * time.Second,
		},
		"the reports of a recent failure are awaited for the rest of the window": {
			seen: 1500 * time.Millisecond, window: 2 * time.Second, want: 500 * time.Millisecond,
		},
		"the reports are due at the end of the window":   {seen: 2 * time.Second, window: 2 * time.Second},
		"the reports are due long after the window":      {seen: time.Hour, window: 2 * time.Second},
		"a window of 0 disables waiting":                 {seen: 0, window: 0},
		"a failure seen in the future is not waited for": {seen: -10 * time.Minute, window: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, waits := RootCauseDue(now.Add(-tc.seen), now, tc.window)
			if waits != (tc.want > 0) {
				t.Errorf("RootCauseDue waits: %t, want %t", waits, tc.want > 0)
			}
			if waits && due.Sub(now) != tc.want {
				t.Errorf("RootCauseDue waits for %s, want %s", due.Sub(now), tc.want)
			}
		})
	}
}

func TestPrecedes(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, time.March, 1, 12, 0, second, 0, time.UTC) }
	exited := func(code int32, second int) Failure { return Failure{ExitCode: &code, Time: at(second)} }
	printed := func(file string, second int) Failure {
		data, err := os.ReadFile(filepath.Join("..", "trainlog", "testdata", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return Failure{ExitCode: new(int32(1)), Time: at(second), Report: trainlog.Read(string(data))}
	}
	sawAt := func(seen time.Time, second int) Failure {
		return Failure{ExitCode: new(int32(1)), Time: at(second), Report: trainlog.Report{Time: seen}}
	}
	// reported returns a failure with a report of a launcher. In the report, the process that failed first has the given
	// exit code.
	reported := func(code int32, second int) Failure {
		return Failure{ExitCode: new(int32(1)), Time: at(second), Report: trainlog.Report{ExitCode: &code}}
	}
	lostPeers := func(f Failure) Failure {
		f.Report.LostPeers = true
		return f
	}
	sawAndReported := func(code int32, second int) Failure {
		f := reported(code, second)
		f.Report.Time = at(second)
		return f
	}
	disrupted := func(second int) Failure { return Failure{Time: at(second), Ignored: true} }
	ofDevice := func(f Failure) Failure {
		f.Reason, f.Ignored = "DeviceUnhealthy", true
		return f
	}
	for name, tc := range map[string]struct{ first, second Failure }{
		"an unhealthy device precedes an earlier failure":            {ofDevice(exited(1, 20)), exited(1, 10)},
		"the earlier failure because of a device precedes":           {ofDevice(exited(1, 10)), ofDevice(exited(1, 20))},
		"the earlier of two failures precedes":                       {exited(1, 10), exited(137, 11)},
		"a killed container precedes in the same second":             {exited(137, 10), exited(1, 10)},
		"a disruption precedes a later failure of a peer":            {disrupted(10), exited(1, 20)},
		"a disruption precedes a failure within the clock skew":      {disrupted(10), exited(1, 9)},
		"a failure precedes a much later disruption of a peer":       {exited(1, 10), disrupted(20)},
		"a disruption at an unknown time precedes any other failure": {Failure{Ignored: true}, exited(1, 10)},
		"the earlier of two disruptions precedes":                    {disrupted(10), disrupted(20)},
		"torch 1: a killed rank precedes, though the agent of its peer ended first": {
			printed("torch1-signal-0", 12), printed("torch1-signal-1", 10),
		},
		"torch 1: a rank with its own exit code precedes, though it ended later": {
			printed("torch1-3-0", 12), printed("torch1-3-1", 10),
		},
		"torch 1: a recorded exception that is not about peers precedes, though it ended later": {
			printed("torch1-recorded-1", 12), printed("torch1-recorded-0", 10),
		},
		"torch 2: a killed rank precedes, though the agent of its peer ended first": {
			printed("torch2-signal-1", 12), printed("torch2-signal-0", 10),
		},
		"torch 2: a rank with its own exit code precedes": {
			printed("torch2-3-1", 10), printed("torch2-3-0", 10),
		},
		"torch 2: a recorded exception that is not about peers precedes": {
			printed("torch2-recorded-0", 10), printed("torch2-recorded-1", 10),
		},
		"torch 2: the rank that was first to end by the log of its agent precedes": {
			printed("torch2-exception-1", 10), printed("torch2-exception-0", 10),
		},
		"without a launcher, an exception that is not about peers precedes": {
			printed("plain1-exception-1", 12), printed("plain1-exception-0", 10),
		},
		"a disruption precedes a peer that lost the connection": {
			disrupted(12), printed("plain1-exception-0", 10),
		},
		"a killed container precedes, though its last output is about peers": {
			Failure{ExitCode: new(int32(137)), Time: at(10), Report: trainlog.Report{LostPeers: true}}, exited(1, 10),
		},
		"the failure that its launcher saw first precedes, though its container ended later": {
			sawAt(at(8), 12), sawAt(at(9), 11),
		},
		"the failure that its launcher saw first precedes in another time zone": {
			sawAt(at(8).Add(330*time.Minute), 12), sawAt(at(9).Add(330*time.Minute), 11),
		},
		"the failure that its launcher saw first precedes within a second": {
			sawAt(at(10).Add(300*time.Millisecond), 10), sawAt(at(10).Add(400*time.Millisecond), 10),
		},
		"a failure precedes a later one whose launcher reports a time of last year": {
			exited(1, 9), sawAt(at(10).AddDate(-1, 0, 0), 10),
		},
		"a killed container precedes one with its own exit code": {exited(137, 10), exited(3, 10)},
		"a process that its launcher reports as killed precedes": {reported(-9, 10), exited(3, 10)},
		"a process that a shell reports as killed precedes":      {reported(137, 10), exited(3, 10)},
		"an own exit code precedes in the same second":           {exited(3, 10), exited(1, 10)},
		"an own exit code that the launcher reports precedes": {
			lostPeers(reported(3, 11)), lostPeers(exited(1, 10)),
		},
		"a failure with a known exception precedes in the same second": {
			exited(1, 10), Failure{ExitCode: new(int32(1)), Time: at(10), Report: trainlog.Report{IsUnclear: true}},
		},
		"a disruption precedes, though the last output is about peers": {
			lostPeers(disrupted(10)), exited(1, 10),
		},
		"an own exit code that the launcher might have seen late precedes":      {sawAndReported(3, 14), exited(1, 10)},
		"a failure precedes an exit code seen more than a poll interval later":  {exited(1, 10), sawAndReported(3, 16)},
		"a failure precedes a later exit code that was reported without a time": {exited(1, 10), reported(3, 12)},
		"a failure that its launcher saw before the peer ended precedes":        {sawAt(at(9), 11), exited(1, 10)},
		"a failure that its launcher saw first precedes in a time zone ahead": {
			sawAt(at(8).Add(330*time.Minute), 12), exited(1, 10),
		},
		"a failure precedes a later one that its launcher saw as the container ended": {exited(1, 5), sawAt(at(11), 10)},
		"a failure at an unknown time precedes": {
			Failure{ExitCode: new(int32(1))}, exited(1, 10),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !Precedes(tc.first, tc.second) || Precedes(tc.second, tc.first) {
				t.Errorf("the first precedes the second: %t, want true; the second precedes the first: %t, want false",
					Precedes(tc.first, tc.second), Precedes(tc.second, tc.first))
			}
		})
	}
}

func TestNeitherPrecedes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	exited := func(code int32) Failure { return Failure{ExitCode: &code, Time: at} }
	printed := func(report trainlog.Report) Failure {
		return Failure{ExitCode: new(int32(1)), Time: at, Report: report}
	}
	for name, tc := range map[string]struct{ a, b Failure }{
		"neither of two equal failures precedes":              {exited(1), exited(1)},
		"neither of two killed containers precedes":           {exited(137), exited(137)},
		"neither of two containers with exit code 3 precedes": {exited(3), exited(3)},
		"neither of two unclear failures precedes": {
			printed(trainlog.Report{IsUnclear: true}), printed(trainlog.Report{IsUnclear: true}),
		},
		"an exit code of the container and one of the launcher are equivalent": {
			printed(trainlog.Report{ExitCode: new(int32(3))}), exited(5),
		},
		"the launcher's time does not count if the end of the container is unknown": {
			Failure{ExitCode: new(int32(1)), Report: trainlog.Report{Time: at}}, Failure{ExitCode: new(int32(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if Precedes(tc.a, tc.b) || Precedes(tc.b, tc.a) {
				t.Errorf("a precedes b: %t, b precedes a: %t; want false for both",
					Precedes(tc.a, tc.b), Precedes(tc.b, tc.a))
			}
		})
	}
}

func TestIsUnclear(t *testing.T) {
	t.Parallel()
	unclear := trainlog.Report{IsUnclear: true}
	for name, tc := range map[string]struct {
		failure Failure
		want    bool
	}{
		"a failure with an incomplete output is unclear": {
			failure: Failure{ExitCode: new(int32(1)), Report: unclear}, want: true,
		},
		"a complete output is clear":                {failure: Failure{ExitCode: new(int32(1))}},
		"a disruption is clear without the output":  {failure: Failure{Report: unclear, Ignored: true}},
		"exit code 137 is clear without the output": {failure: Failure{ExitCode: new(int32(137)), Report: unclear}},
		"signal 9 that the launcher reports is clear": {
			failure: Failure{ExitCode: new(int32(1)), Report: trainlog.Report{IsUnclear: true, ExitCode: new(int32(-9))}},
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

func TestIsFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure Failure
		want    bool
	}{
		"a failure that the supervisors saw first": {
			failure: Failure{ExitCode: new(int32(1)), Report: trainlog.Report{IsFirst: true}}, want: true,
		},
		"a failure without supervisors": {failure: Failure{ExitCode: new(int32(1))}},
		"a failure that only lost its peers": {
			failure: Failure{ExitCode: new(int32(1)), Report: trainlog.Report{IsFirst: true, LostPeers: true}},
		},
		"a failure with an incomplete output": {
			failure: Failure{ExitCode: new(int32(1)), Report: trainlog.Report{IsFirst: true, IsUnclear: true}},
		},
		"a killed process that lost its peers": {
			failure: Failure{
				ExitCode: new(int32(1)), Report: trainlog.Report{IsFirst: true, LostPeers: true, ExitCode: new(int32(-9))},
			},
			want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.failure.IsFirst(); got != tc.want {
				t.Errorf("IsFirst is %t, want %t", got, tc.want)
			}
		})
	}
}
