package conformance

import (
	"testing"

	"tensorstack.dev/jobs/kit/model"
)

// countWrites returns a function that returns how many writes a job costs the controller. The steps of the job are the
// given ones, and then its end.
func countWrites(t *testing.T, end ...step) func(shape Shape, steps ...step) int {
	t.Helper()
	kind, err := model.KindOf(plainController(), newPlainJob)
	if err != nil {
		t.Fatal(err)
	}
	return func(shape Shape, steps ...step) int {
		s := scenario{shape: shape, steps: append(steps, end...)}
		return s.happen(t, kind, fault{}, nil).writes
	}
}

// moreWrites are the writes that something costs, and their limit.
type moreWrites struct{ got, most int }

// checkWrites checks the writes of each case. The writes of the controller are a budget.
func checkWrites(t *testing.T, cases map[string]moreWrites) {
	t.Helper()
	for name, tc := range cases {
		if t.Logf("%s costs %d more writes", name, tc.got); tc.got > tc.most {
			t.Errorf("%s costs %d more writes, want at most %d", name, tc.got, tc.most)
		}
	}
}
