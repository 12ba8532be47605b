package conformance

import (
	"testing"

	"tensorstack.dev/jobs/kit/model"
)

// countWrites returns a function that runs a job through the given steps and then through the steps of the parameter
// end. That function returns the number of writes that the controller makes.
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

// moreWrites has the number of additional writes that a case costs, and the limit on that number.
type moreWrites struct{ got, most int }

// checkWrites checks that no case costs more additional writes than its limit.
func checkWrites(t *testing.T, cases map[string]moreWrites) {
	t.Helper()
	for name, tc := range cases {
		if t.Logf("%s costs %d more writes", name, tc.got); tc.got > tc.most {
			t.Errorf("%s costs %d more writes, want at most %d", name, tc.got, tc.most)
		}
	}
}
