package conformance

import (
	"testing"
	"time"
)

func TestAJobThatKueueAdmitsCostsFewMoreWrites(t *testing.T) {
	t.Parallel()
	writes := countWrites(t, exits(1, 0), exits(0, 0))
	plain, queued := two(onFailure, scopeJob), inKueue(two(onFailure, scopeJob))
	admitted := writes(queued, run)
	checkWrites(t, map[string]moreWrites{
		"an admission": {admitted - writes(plain, run), 4},
		"a restart": {
			writes(queued, run, exits(1, 1), run) - admitted - (writes(plain, run, exits(1, 1), run) - writes(plain, run)), 2,
		},
		// An eviction deletes all pods, and the controller later creates them again. A pause and a resume do the same, so
		// the eviction is compared with them.
		"an eviction": {
			writes(queued, run, evicts, run) - admitted - (writes(plain, run, paused, resumed, run) - writes(plain, run)), 3,
		},
		// Kueue gives two reasons for the wait, one after the other: the eviction and the closed queue. The controller
		// reports both in the status.
		"a wait of an hour": {
			writes(queued, closes, run, evicts, passes(time.Hour), opens, run) - writes(queued, run, evicts, run), 2,
		},
		"an hour at rest": {writes(queued, run, passes(time.Hour)) - admitted, 0},
	})
}
