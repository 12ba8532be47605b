package conformance

import (
	"testing"
	"time"

	"tensorstack.dev/jobs/kit/model"
)

// Writes of the controller are a budget. These numbers are for jobs of two replicas.
func TestAJobThatKueueAdmitsCostsFewMoreWrites(t *testing.T) {
	t.Parallel()
	kind, err := model.KindOf(plainController(), newPlainJob)
	if err != nil {
		t.Fatal(err)
	}
	writes := func(shape Shape, steps ...step) int {
		s := scenario{shape: shape, steps: append(steps, exits(1, 0), exits(0, 0))}
		return s.happen(t, kind, fault{}, nil).writes
	}
	plain, queued := two(onFailure, scopeJob), inKueue(two(onFailure, scopeJob))
	admitted := writes(queued, run)
	for name, tc := range map[string]struct {
		got, most int
	}{
		"an admission": {admitted - writes(plain, run), 4},
		"a restart": {
			writes(queued, run, exits(1, 1), run) - admitted - (writes(plain, run, exits(1, 1), run) - writes(plain, run)), 2,
		},
		// A pause also deletes all pods and creates them again.
		"an eviction": {
			writes(queued, run, evicts, run) - admitted - (writes(plain, run, paused, resumed, run) - writes(plain, run)), 3,
		},
		// Kueue gives two reasons in turn.
		"a wait of an hour": {
			writes(queued, closes, run, evicts, passes(time.Hour), opens, run) - writes(queued, run, evicts, run), 2,
		},
		"an hour at rest": {writes(queued, run, passes(time.Hour)) - admitted, 0},
	} {
		if t.Logf("%s costs %d more writes", name, tc.got); tc.got > tc.most {
			t.Errorf("%s costs %d more writes, want at most %d", name, tc.got, tc.most)
		}
	}
}
