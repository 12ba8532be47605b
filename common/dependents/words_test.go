package dependents

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The words of Kueue change with the jobs of others. A job must not write its status for each change.
func TestAJobShowsNewWordsOfKueueForANewReasonOrAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	s := &Words{}
	job := types.NamespacedName{Namespace: "ns", Name: "job"}
	start := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after         time.Duration
		reason, words string
		want          string
		wantDue       time.Duration
	}{
		{0, "Pending", "2 more are needed", "2 more are needed", 0},
		{time.Minute, "Pending", "1 more is needed", "2 more are needed", 4 * time.Minute},
		{2 * time.Minute, "Inadmissible", "the queue is stopped", "the queue is stopped", 0},
		{6 * time.Minute, "Inadmissible", "the queue is missing", "the queue is stopped", time.Minute},
		{7 * time.Minute, "Inadmissible", "the queue is missing", "the queue is missing", 0},
		{8 * time.Minute, "", "", "", 0},
		{9 * time.Minute, "Inadmissible", "the queue is stopped", "the queue is stopped", 0},
	} {
		got, due := s.latest(job, saying{reason: step.reason, words: step.words}, start.Add(step.after))
		if got != step.want || due != step.wantDue {
			t.Errorf("after %s, the job shows %q, and others in %s, want %q and %s", step.after, got, due, step.want,
				step.wantDue)
		}
	}
	s.Forget(job)
	if len(s.last) > 0 {
		t.Errorf("a job that is gone is still known: %v", s.last)
	}
}
