package style

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/tree"
)

// root is the folder of the repository.
const root = "../.."

// files returns the files of the repository that match a pattern, except generated files. It maps the path of each
// file, relative to root, to its content.
func files(t *testing.T, patterns ...string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, file := range tree.Files(t, root, patterns...) {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !isGenerated(file, content) {
			found[file] = content
		}
	}
	return found
}

// isGenerated reports whether a program writes the file, or the file is test data. The texts of generated references
// are checked at their source: in the comments of the API types and in the usages of flags. Copies of pages are checked
// in docs.
func isGenerated(file string, content []byte) bool {
	return bytes.Contains(content, []byte("Code generated ")) ||
		bytes.HasPrefix(content, []byte("<!-- Written by `make generate`")) ||
		strings.HasPrefix(file, "docs/api/") || strings.Contains(file, "/testdata/") ||
		strings.Contains(file, "/config/crd/") || strings.HasPrefix(file, "kit/controlplane/crds/") ||
		strings.HasPrefix(file, "cli/docs/pages/")
}

// checkNone fails the test for each file that has findings.
func checkNone(t *testing.T, found map[string][]string) {
	t.Helper()
	for _, file := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s is not written as docs/contribute/style.md asks:\n\t%s", file, strings.Join(found[file], "\n\t"))
	}
}
