package conformance

import (
	"slices"
	"testing"
	"time"

	"tensorstack.dev/jobs/kit/model"
)

func TestAJobThatAvoidsNodesCostsFewMoreWrites(t *testing.T) {
	t.Parallel()
	writes := countWrites(t, together(exits(1, 0), exits(0, 0)))
	avoiding, ignoring := two(onFailure, scopeJob), two(onFailure, scopeJob, model.IgnoresNodes)
	twice := append(twiceLost(1), run, passes(10*time.Second))
	checkWrites(t, map[string]moreWrites{
		"a job that has no failure": {
			writes(avoiding, run, passes(time.Hour)) - writes(ignoring, run, passes(time.Hour)), 0,
		},
		"a restart because of a device, in comparison to an exit": {
			writes(avoiding, run, losesDevice(1), isReplaced, run) - writes(avoiding, run, exits(1, 137), run), 0,
		},
		"a node that begins to be avoided": {writes(avoiding, twice...) - writes(ignoring, twice...), 0},
		"a node that is allowed again after an hour": {
			writes(avoiding, append(slices.Clone(twice), passes(2*time.Hour))...) - writes(avoiding, twice...), 1,
		},
		// The controller makes the avoidance of the node end earlier, and later allows the node again: two writes. It
		// deletes two pods and creates them again: four writes. It reports the deletions and the creations in the status:
		// two writes.
		"two pods that run on their only node again": {
			writes(avoiding, append(twiceLost(1), findsNoNode(0), findsNoNode(1), passes(6*time.Minute), run)...) -
				writes(avoiding, append(twiceLost(1), run)...), 8,
		},
	})
}
