package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// The status of every decision obeys two laws, in every state of the job and its pods. First, facts that the status
// already records do not change the status. Second, if the same facts are rendered twice, the second rendering does
// not change the status.
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

		recorded := decide.Facts{
			Counts: view.CountsOf(j.Status), StartTime: j.Status.StartTime, Failures: j.Status.Failures,
			AvoidedNodes: j.Status.AvoidedNodes, End: view.EndOf(j.Status),
		}
		for _, recorded.Action = range []decide.Action{decide.Leave, decide.CleanUp, decide.End} {
			want := status.Rendering{Status: *j.Status.DeepCopy()}
			if recorded.Action != decide.Leave {
				want.Status.ObservedGeneration = j.Generation
			}
			got := status.Render(v, recorded, j.Status)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the status changes although nothing is new:\n%s", diff)
			}
		}
		once := status.Render(v, facts, j.Status).Status
		twice := status.Render(v, facts, once).Status
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatalf("a status that is rendered twice differs:\n%s", diff)
		}
	})
}
