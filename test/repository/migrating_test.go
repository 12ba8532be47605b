package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Whoever comes from Kubeflow finds every field of their manifest in the table of its kind.
func TestMigrationKnowsEveryFieldOfKubeflow(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/kubeflow-fields.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kinds map[string][]string
	if err := yaml.UnmarshalStrict(content, &kinds); err != nil || len(kinds) == 0 {
		t.Fatalf("there are no fields: %v", err)
	}
	document, err := os.ReadFile(filepath.Join(folder, "migrating-from-kubeflow.md"))
	if err != nil {
		t.Fatal(err)
	}
	tables := sections(string(document))
	for kind, fields := range kinds {
		var first []string
		for _, row := range tableRows(tables[kind]) {
			first = append(first, row[0])
		}
		known := strings.Join(first, "\n")
		for _, field := range fields {
			name := field[strings.LastIndex(field, ".")+1:]
			if !regexp.MustCompile("`[^`]*\\b" + name + "\\b[^`]*`").MatchString(known) {
				t.Errorf("the section %q does not say what becomes of %s", kind, field)
			}
		}
	}
}
