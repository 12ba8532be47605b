package conformance

import (
	"slices"
	"testing"
	"time"

	"tensorstack.dev/jobs/kit/model"
)

// Writes of the controller are a budget. These numbers are for jobs of two replicas.
func TestAJobThatAvoidsNodesCostsFewMoreWrites(t *testing.T) {
	t.Parallel()
	kind, err := model.KindOf(plainController(), newPlainJob)
	if err != nil {
		t.Fatal(err)
	}
	writes := func(shape Shape, steps ...step) int {
		s := scenario{shape: shape, steps: append(steps, together(exits(1, 0), exits(0, 0)))}
		return s.happen(t, kind, fault{}, nil).writes
	}
	avoiding, ignoring := two(onFailure, scopeJob), two(onFailure, scopeJob, model.IgnoresNodes)
	twice := append(twiceLost(1), run, passes(10*time.Second))
	for name, tc := range map[string]struct {
		got, most int
	}{
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
		// The time is brought forward and the node is allowed. Two pods are deleted and created again, and reported.
		"two pods that run on their only node again": {
			writes(avoiding, append(twiceLost(1), findsNoNode(0), findsNoNode(1), passes(6*time.Minute), run)...) -
				writes(avoiding, append(twiceLost(1), run)...), 8,
		},
	} {
		if t.Logf("%s costs %d more writes", name, tc.got); tc.got > tc.most {
			t.Errorf("%s costs %d more writes, want at most %d", name, tc.got, tc.most)
		}
	}
}
