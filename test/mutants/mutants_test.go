// Package mutants checks the check: it puts one bug after the other into the job controller, and the exploration of small jobs must find each.
package mutants

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is a bug: a text in a file of the module common, and what takes its place.
type mutant struct{ file, before, after string }

// ofGangs is how the names of those begin that only jobs of a queue show.
const ofGangs = "a gang: "

// Every one of these has been a bug of this controller, or of another operator.
var mutants = map[string]mutant{
	"the status overwrites that of another version": {
		"controller/execute.go", "client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})", "client.MergeFrom(base)",
	},
	"a conflict is not tried again": {
		"controller/execute.go", "return reconcile.Result{RequeueAfter: conflictDelay}, nil", "return reconcile.Result{}, nil",
	},
	"a deletion takes whatever has the name": {
		"controller/execute.go", "return []client.DeleteOption{client.Preconditions{UID: &pod.UID}}\n", "return nil\n",
	},
	"the clean-up deletes a pod that has ended since": {
		"controller/execute.go", "client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}", "client.Preconditions{UID: &pod.UID}",
	},
	"pods are created for a job that has changed since": {
		"controller/execute.go", "if err == nil && d.ChangesObjects() &&", "if false && d.ChangesObjects() &&",
	},
	"the accounting of a failure waits for its turn": {
		"plan/delay.go", "case len(d.Restarts) > 0, !isFirst", "case !isFirst",
	},
	"an elastic job begins without saying which replicas it has": {
		"plan/delay.go", "spec.Elastic == nil && ", "",
	},
	"a job that was paused before its first status leaves its pods": {
		"plan/interpret.go", "v.job.Status.StartTime == nil && !v.hasUnreportedPods()", "v.job.Status.StartTime == nil",
	},
	"a job that ends before its first status never says that it was accepted": {
		"plan/run.go", "if s.hasUnreportedPods() {", "if false {",
	},
	"a cache is believed": {
		"controller/reconciler.go", "if !decision.NeedsLiveRead ||", "if true ||",
	},
	"a watch is trusted to tell of each pod": {
		"controller/reconciler.go", "if err == nil && live.HasMoreThan(seen, planned.UID) {", "if false {",
	},
	"replicas start beside pods of an earlier attempt": {
		"plan/run.go", "if s.hasPodsOfEarlierJobAttempt() {", "if false {",
	},
	"pods of an earlier attempt stay": {
		"plan/run.go", "\ts.deleteObsolete()\n", "",
	},
	"nobody wakes for a restart that has to wait": {
		"plan/run.go", "s.wakeUrgentlyAt(r.recorded.RestartTime.Time)\n", "",
	},
	"nobody wakes for the deadline": {
		"plan/run.go", "if deadline, ok := s.deadline(); ok {\n\t\ts.wakeAt(deadline)", "if deadline, ok := s.deadline(); ok {\n\t\t_ = deadline",
	},
	"a finished job goes on": {
		"plan/choose.go", "case v.job.Status.Finished():", "case v.job.Status.Finished() && v.job.Status.Phase == \"Failed\":",
	},
	"a job that is being deleted creates pods": {
		"plan/choose.go", "case v.job.Deleting:", "case false:",
	},
	"a failure counts as often as it is seen": {
		"plan/replica.go", "return r.pod != nil && r.podAttempt != r.attempt().String()", "return false",
	},
	"the aggregate forgets who succeeded": {
		"plan/tasks.go", "aggregate.Succeeded++", "",
	},
	"only the first failure counts": {
		"plan/replica.go", "r.outcome = policy.Judge(r.pod, MainContainerOf(r.pod, v.job.MainContainers))\n",
		"r.outcome = policy.Judge(r.pod, MainContainerOf(r.pod, v.job.MainContainers))\nif r.outcome.Failure != nil && v.job.Status.BackoffCount > 0 {\nr.outcome.Failure.Ignored = true\n}\n",
	},
	"what is not to blame counts": {
		"plan/restart.go", "if !f.failure.Ignored {\n\t\ts.Status.BackoffCount++", "if true {\n\t\ts.Status.BackoffCount++",
	},
	"a failure is counted and not restarted": {
		"plan/restart.go", "s.Status.Attempt++", "",
	},
	"the limit is not kept": {
		"plan/finish.go", "if cause.failure.Ignored || policy.BackoffLeft", "if true || policy.BackoffLeft",
	},
	"a job never expires": {
		"plan/cleanup.go", "s.wakeAt(expiry)", "",
	},
	"a pause is not counted before pods are deleted": {
		"plan/pause.go", "s.Status.Pauses++", "",
	},
	"a pause believes that no pod is left": {
		"plan/liveread.go", "case c.action == pause && isPaused(s.Status) != isPaused(status):", "case false:",
	},
	"a job is said to run while one waits": {
		"plan/status.go", "case waiting == 0:", "case waiting <= 1:",
	},
	"a status is written at rest": {
		"plan/status.go", "s.Status.Reason = reason\n", "s.Status.Reason = reason + s.now.Format(\"150405\")\n",
	},
	"a failed replica is said to have recovered": {
		"plan/status.go", "return r.staysFailed() || waiting", "return waiting",
	},
	"what has failed trains": {
		"plan/elastic.go", "if !r.staysFailed() && r.failure() == nil {", "if true {",
	},
	"what is given up counts": {
		"plan/elastic.go", "\tv.replicas = remaining\n", "",
	},
	"a gang: pods are created though nobody has admitted their group as it is now": {
		"plan/podgroup.go", "case admitted == nil || view.Object.Status.ObservedGeneration < view.Object.Generation:", "case admitted == nil:",
	},
	"a gang: a cache is believed that its group is admitted": {
		"plan/liveread.go", "case len(s.Creates) > 0 && v.job.Spec.T9kScheduler() != nil:", "case false:",
	},
	"a gang: a cache is believed about what its group needs": {
		"plan/liveread.go",
		"case s.PodGroup.Change == batchv1beta1.ActionCreate, s.PodGroup.Change == batchv1beta1.ActionUpdate:", "case false:",
	},
	"a gang: its group stays when it ends": {
		"plan/cleanup.go", "s.releaseGroup()", "",
	},
	"a gang: its group stays when it pauses": {
		"plan/pause.go", "s.releaseGroup()", "",
	},
	"a gang: a replacement waits for peers that have succeeded": {
		"plan/podgroup.go", "case s.needsScheduling() && !needsSamePods(view.Object.Spec, want):", "case false:",
	},
}

// The list follows the code.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.overlay(t, filepath.Join("..", "..", "common", m.file))
		})
	}
}

func TestExplorationFindsEveryMutant(t *testing.T) {
	if os.Getenv("MUTANTS") == "" {
		t.Skip("it builds the job controller once a mutant: run it by `make mutants`")
	}
	var part, parts int
	if _, err := fmt.Sscanf(os.Getenv("MUTANTS"), "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		t.Fatalf("$MUTANTS is %q, want a part such as 1/3", os.Getenv("MUTANTS"))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(mutants)) {
		if i%parts != part-1 {
			continue
		}
		m := mutants[name]
		t.Run(name, func(t *testing.T) {
			overlay := m.overlay(t, filepath.Join(root, "common", m.file))
			jobs := "PlainKind/small_jobs"
			if strings.HasPrefix(name, ofGangs) {
				jobs += ".*/a_gang"
			}
			test := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", "-run", jobs, "./common/frameworktest", "-conformance.full")
			test.Dir = root
			output, err := test.CombinedOutput()
			_, trace, found := strings.Cut(string(output), "1. the user creates the job")
			if err == nil || !found {
				t.Fatalf("it is not found:\n%s", output)
			}
			trace, _, _ = strings.Cut(trace, "--- ")
			t.Logf("found:\n%s", trace)
		})
	}
}

// overlay writes the file with the bug, and what tells go to take it.
func (m mutant) overlay(t *testing.T, path string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.before); n != 1 {
		t.Fatalf("%s has %d times, instead of once, what the mutant replaces: %s", m.file, n, m.before)
	}
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.before, m.after, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
