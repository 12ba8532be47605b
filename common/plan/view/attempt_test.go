package view_test

import (
	"testing"

	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/view"
)

// Different attempts have different labels.
func TestAttempt(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]view.Attempt{
		"0": {}, "2": {Job: 2}, "0.2": {Replica: 2}, "12.3": {Job: 12, Replica: 3},
	} {
		jobtest.Diff(t, "label", want, a.String())
	}
}
