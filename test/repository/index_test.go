package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIndexOfTheDocumentationListsAllPages(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimPrefix(filepath.ToSlash(page), "../../docs/")
		if !strings.HasPrefix(name, "api/") && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}
