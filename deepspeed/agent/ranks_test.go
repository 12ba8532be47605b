package agent

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/common/ranks"
	"tensorstack.dev/jobs/common/trainlog"
)

func TestFirstFailure(t *testing.T) {
	t.Parallel()
	start := func(rank int) ranks.Event { return ranks.Event{Rank: rank} }
	end := func(rank, code int) ranks.Event { return ranks.Event{Rank: rank, Ended: true, Code: &code} }
	reaped := func(rank int) ranks.Event { return ranks.Event{Rank: rank, Ended: true} }
	all := func(then ...ranks.Event) []ranks.Event {
		return append([]ranks.Event{start(2), start(3), start(4)}, then...)
	}
	for name, tc := range map[string]struct {
		events []ranks.Event
		want   string
	}{
		"no report is about ranks that run":      {events: all()},
		"no report is about ranks that succeed":  {events: all(end(2, 0), end(3, 0), end(4, 0))},
		"no report is about an unknown end":      {events: all(reaped(2))},
		"a rank that was killed is reported":     {all(end(3, -9)), trainlog.RankReport(3, -9)},
		"a rank that a signal ended is reported": {all(end(3, -11)), trainlog.RankReport(3, -11)},
		"a rank that exited is reported":         {all(end(3, 1)), trainlog.RankReport(3, 1)},
		"the first of several failures is reported": {
			all(end(2, 0), end(3, 7), end(4, 1)), trainlog.RankReport(3, 7),
		},
		"a failure is reported before all ranks are found": {
			[]ranks.Event{start(2), end(2, 1), start(3), start(4)}, trainlog.RankReport(2, 1),
		},
		"a rank that SIGTERM ended is reported if all ranks are known": {
			all(end(2, -15), end(3, 1)), trainlog.RankReport(2, -15),
		},
		// A rank can fail before it is found. DeepSpeed's launcher then stops the other ranks with SIGTERM.
		"ranks that SIGTERM ended are not reported if another rank is unknown": {
			events: []ranks.Event{start(2), start(3), end(2, -15), end(3, -15)},
		},
		"the first rank that SIGTERM ended is reported once the last rank is found": {
			[]ranks.Event{start(2), start(3), end(3, -15), end(2, -15), start(4)}, trainlog.RankReport(3, -15),
		},
		"a failure precedes the end by SIGTERM while another rank is unknown": {
			[]ranks.Event{start(2), start(3), end(2, -15), end(3, 1)}, trainlog.RankReport(3, 1),
		},
		// A process whose parent was a rank looks like a rank.
		"no report is about a process that the ranks leave behind": {
			events: all(end(2, 0), end(3, 0), end(4, 0), start(2), end(2, -9)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, firstFailure(slices.Values(tc.events), 3)); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
		})
	}
}
