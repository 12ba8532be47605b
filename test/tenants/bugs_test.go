package tenants

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/test/internal/mutant"
	"tensorstack.dev/jobs/test/internal/tree"
)

// TestAttacksAndListsHaveTheSameBugs compares the bugs in the lists of attacks with the bugs in the code of the tests
// for attacks. It only reads the code of these tests. `make tenants` and `make work` run them.
func TestAttacksAndListsHaveTheSameBugs(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for _, file := range tree.Files(t, "../..", "test/tenants/*.go", "test/work/*.go") {
		content, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(content)
	}
	var listed, unused, unlisted []string
	for _, attack := range mutant.Below(t, "../..").Attacks {
		listed = append(listed, attack.Bug)
		if !strings.Contains(tests.String(), `"`+attack.Bug+`"`) {
			unused = append(unused, attack.Bug)
		}
	}
	for _, match := range regexp.MustCompile(`\.with\(\s*"([^"]+)"`).FindAllStringSubmatch(tests.String(), -1) {
		if !slices.Contains(listed, match[1]) {
			unlisted = append(unlisted, match[1])
		}
	}
	if diff := cmp.Diff([]string(nil), unused); diff != "" {
		t.Errorf("a list has bugs that no attack uses:\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), unlisted); diff != "" {
		t.Errorf("attacks use bugs that no file testdata/mutants.yaml lists:\n%s", diff)
	}
}
