package style

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The rules are in hack/prose/styles. Of Go the linter reads the comments.
func TestProseIsPlain(t *testing.T) {
	t.Parallel()
	vale, err := filepath.Abs(filepath.Join(root, "bin/vale"))
	if err != nil {
		t.Fatal(err)
	}
	linter := exec.CommandContext(t.Context(), vale,
		append([]string{"--no-exit", "--output=JSON"}, slices.Sorted(maps.Keys(files(t, "*.go", "*.md")))...)...)
	linter.Dir = root
	output, err := linter.Output()
	if err != nil {
		t.Fatalf("%v: make lint builds the linter: %s", err, output)
	}
	var alerts map[string][]struct {
		Line    int
		Message string
	}
	if err := json.Unmarshal(output, &alerts); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	found := map[string][]string{}
	for file, list := range alerts {
		for _, a := range list {
			found[file] = append(found[file], fmt.Sprintf("%d: %s", a.Line, a.Message))
		}
	}
	checkNotMore(t, "testdata/prose.yaml", found)
}
