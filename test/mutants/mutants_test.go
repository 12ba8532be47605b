// Package mutants checks the exploration of small jobs: with each of a number of bugs in the job controller, it must
// fail. A bug is marked beside the code, on the line before the one that it replaces:
//
//	//mutant:a finished job goes on => case false:
//	case v.job.Status.Finished():
//
// With nothing after the arrow, the line is removed. If the name begins with one of the words of shownBy and a colon,
// only those explorations show the bug. Each of them has been a bug of this controller, or of another operator.
package mutants

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/mutant"
)

// shownBy has the explorations that show a bug, by the word that the name of the bug begins with.
var shownBy = map[string]string{
	"a gang":     "a_gang",
	"admission":  "admission_takes",
	"away":       "away_for_long",
	"containers": "labels_change",
	"late":       "carried_out_late",
	"owners":     "somebody_else_has",
}

func TestMarks(t *testing.T) {
	t.Parallel()
	found := mutant.Marked(t, filepath.Join("..", "..", "common"), "mutant")
	if len(found) < 45 {
		t.Errorf("%d mutants are marked, and there were 45", len(found))
	}
	for i := 1; i < len(found); i++ {
		if found[i].Name == found[i-1].Name {
			t.Errorf("two mutants have the name %q", found[i].Name)
		}
	}
}

func TestExplorationFindsEveryMutant(t *testing.T) {
	if os.Getenv("MUTANTS") == "" {
		t.Skip("it builds the job controller once for each mutant; `make mutants` runs it")
	}
	var part, parts int
	if _, err := fmt.Sscanf(os.Getenv("MUTANTS"), "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		t.Fatalf("$MUTANTS is %q, want a part such as 1/3", os.Getenv("MUTANTS"))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutant.Marked(t, filepath.Join(root, "common"), "mutant") {
		if i%parts != part-1 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			jobs := "PlainKind/small_jobs"
			word, _, _ := strings.Cut(m.Name, ":")
			if shown, ok := shownBy[word]; ok {
				jobs += ".*/" + shown
			}
			test := exec.Command("go", "test", "-overlay", m.Overlay(t), "-vet=off", "-count=1", "-failfast",
				"-run", jobs, "./kit/conformance", "-conformance.full")
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
