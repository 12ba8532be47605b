package style

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/test/internal/tree"
)

// root is the folder of the repository.
const root = "../.."

// files returns the files of the repository that match a pattern and that people write, by their path in it, with
// their content.
func files(t *testing.T, patterns ...string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, file := range tree.Files(t, root, patterns...) {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(content, []byte("Code generated ")) && !strings.HasPrefix(file, "docs/api/") {
			found[file] = content
		}
	}
	return found
}

// checkNotMore fails if a file has more findings than a file of testdata allows, or fewer: then that is to be changed.
// Findings are by file of the repository.
func checkNotMore(t *testing.T, allowedFile string, found map[string][]string) {
	t.Helper()
	content, err := os.ReadFile(allowedFile)
	if err != nil {
		t.Fatal(err)
	}
	var allowed map[string]int
	if err := yaml.UnmarshalStrict(content, &allowed); err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if findings := found[file]; len(findings) > allowed[file] {
			t.Errorf("docs/style.md allows %d findings in %s, and there are %d:\n\t%s",
				allowed[file], file, len(findings), strings.Join(findings, "\n\t"))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(allowed)) {
		if len(found[file]) < allowed[file] {
			t.Errorf("%s has only %d findings left: set its number in test/style/%s", file, len(found[file]), allowedFile)
		}
	}
	if t.Failed() {
		var now strings.Builder
		for _, file := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&now, "%s: %d\n", file, len(found[file]))
		}
		t.Logf("test/style/%s for the tree as it is:\n%s", allowedFile, now.String())
	}
}
