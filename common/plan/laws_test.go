package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/policy"
)

// Two laws hold for how a job reads, whatever the job is and whatever the cluster has of it. Without facts the status
// stays the same. A status that is rendered twice equals the one that is rendered once.
func TestRenderingKeepsItsLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob(t)
		for n := rapid.IntRange(0, 4).Draw(t, "earlier reconciles"); n > 0; n-- {
			at := now.Add(-time.Duration(n) * time.Hour)
			j.Status = j.DecideAt(at, anyPods(t, j, n, at)).Status
			anyEdit(t, j)
		}
		j.Spec = policy.WithDefaults(j.Spec, j.Status.Defaults)
		facts, v := decide.Decide(j.Job, anyPods(t, j, 0, now), now)

		unchanged := status.Render(v, decide.Facts{}, j.Status)
		if diff := cmp.Diff(status.Rendering{Status: j.Status}, unchanged); diff != "" {
			t.Fatalf("the status changes although nothing happens:\n%s", diff)
		}
		once := status.Render(v, facts, j.Status).Status
		twice := status.Render(v, facts, once).Status
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatalf("a status that is rendered twice differs:\n%s", diff)
		}
	})
}
