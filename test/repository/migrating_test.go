package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestMigrationGuideHasEveryFieldOfKubeflow checks that docs/train/migrating-from-kubeflow.md lists each field of
// Kubeflow in the table of its kind.
func TestMigrationGuideHasEveryFieldOfKubeflow(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/kubeflow-fields.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kinds map[string][]string
	if err := yaml.UnmarshalStrict(content, &kinds); err != nil || len(kinds) == 0 {
		t.Fatalf("testdata/kubeflow-fields.yaml has no fields: %v", err)
	}
	document, err := os.ReadFile(filepath.Join(folder, "train", "migrating-from-kubeflow.md"))
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
				t.Errorf("the table of section %q has no row for %s", kind, field)
			}
		}
	}
}
