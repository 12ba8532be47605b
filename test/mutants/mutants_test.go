// Package mutants checks that the exploration of small jobs finds bugs. The bugs are the mutants in
// testdata/mutants.yaml of the packages of common. Each mutant has been a real bug of the job controller or of
// another operator. The exploration must fail with each mutant. The name of a mutant can begin with a key of shownBy
// and a colon. Then the test runs only the explorations that shownBy names for this key.
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

// shownBy maps the text before the colon in the name of a bug to a part of the names of the explorations that show
// the bug.
var shownBy = map[string]string{
	"a gang":     "a_gang",
	"kueue":      "that_Kueue_admits",
	"admission":  "admission_that_sometimes",
	"away":       "long_absence",
	"containers": "label_changes",
	"late":       "delayed_writes",
	"owners":     "another_owner",
	"progress":   "training",
	"in place":   "restarts_in_place",
	"devices":    "device",
	"nodes":      "avoids",
	"quota":      "ResourceQuota",
}

func TestNamesOfMutants(t *testing.T) {
	t.Parallel()
	found := mutant.Below(t, filepath.Join("..", "..", "common")).Mutants
	if len(found) < 45 {
		t.Errorf("found %d mutants, want at least 45", len(found))
	}
	for i := 1; i < len(found); i++ {
		if found[i].Bug == found[i-1].Bug {
			t.Errorf("two mutants have the name %q", found[i].Bug)
		}
	}
}

func TestExplorationFindsEveryMutant(t *testing.T) {
	if os.Getenv("MUTANTS") == "" {
		t.Skip("the test builds the job controller for each mutant: run it with `make mutants`")
	}
	var part, parts int
	if _, err := fmt.Sscanf(os.Getenv("MUTANTS"), "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		t.Fatalf("$MUTANTS is %q, want a part such as 1/3", os.Getenv("MUTANTS"))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutant.Below(t, filepath.Join(root, "common")).Mutants {
		if i%parts != part-1 {
			continue
		}
		t.Run(m.Bug, func(t *testing.T) {
			jobs := "PlainKind/small_jobs"
			word, _, _ := strings.Cut(m.Bug, ":")
			if shown, ok := shownBy[word]; ok {
				jobs += ".*/" + shown
			}
			test := exec.Command("go", "test", "-overlay", m.Overlay(t), "-vet=off", "-count=1", "-failfast",
				"-run", jobs, "./kit/conformance", "-conformance.full")
			test.Dir = root
			output, err := test.CombinedOutput()
			_, trace, found := strings.Cut(string(output), "1. the user creates the job")
			if err == nil || !found {
				t.Fatalf("the exploration does not find the mutant:\n%s", output)
			}
			trace, _, _ = strings.Cut(trace, "--- ")
			t.Logf("found:\n%s", trace)
		})
	}
}
