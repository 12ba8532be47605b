package conformance

import (
	"testing"
	"time"
)

func TestAJobThatReportsItsProgressCostsFewMoreWrites(t *testing.T) {
	t.Parallel()
	writes := countWrites(t, together(exits(1, 0), exits(0, 0)))
	var everySecond []step
	for range 600 {
		everySecond = append(everySecond, reports, passes(time.Second))
	}
	plain := two(onFailure, scopeJob)
	shown := reporting(two(onFailure, scopeJob, stalls(restartsStalled)))
	told := reporting(two(onFailure, scopeJob, stalls(notifiesOfStall)))
	start := writes(shown, run)
	checkWrites(t, map[string]moreWrites{
		// The additional write is for the first report, which the controller writes immediately.
		"a start and an end": {start - writes(plain, run), 1},
		// The controller makes one write per 30 s, and another one for the last report, which comes with the end of the
		// job.
		"ten minutes with a report each second": {writes(shown, append([]step{run}, everySecond...)...) - start, 21},
		"an hour without another report":        {writes(shown, run, passes(time.Hour)) - start, 0},
		"a last report that comes with the end": {writes(shown, run, passes(time.Minute), together(reports)) - start, 1},
		// The additional write is for the first report of the new attempt. The same write ends the stall.
		"a stall, in comparison to a failure": {
			writes(shown, run, hangs, passes(2*time.Minute), run, passes(time.Minute)) - start -
				(writes(plain, run, exits(1, 1), run, passes(time.Minute)) - writes(plain, run)), 1,
		},
		"a stall that is only reported": {writes(told, run, hangs, passes(time.Hour)) - start, 1},
	})
}
