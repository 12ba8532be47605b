package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/tree"
)

// TestMapsListEveryFolder checks that the README of each module with many packages names each of its folders.
func TestMapsListEveryFolder(t *testing.T) {
	t.Parallel()
	for _, module := range []string{"common", "kit", "test"} {
		content, err := os.ReadFile(filepath.Join("../..", module, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		folders := map[string]bool{}
		for _, file := range tree.Files(t, "../..", module+"/*.go") {
			if folder, _, ok := strings.Cut(strings.TrimPrefix(file, module+"/"), "/"); ok {
				folders[folder] = true
			}
		}
		if len(folders) < 5 {
			t.Errorf("found %d folders with Go files in %s, want at least 5", len(folders), module)
		}
		for folder := range folders {
			if !strings.Contains(string(content), "`"+folder+"`") {
				t.Errorf("%s/README.md does not name the folder %s", module, folder)
			}
		}
	}
}

// TestAPIPackagesAreSmallDependencies checks that the packages of the APIs import only packages of Kubernetes, and
// packages of other APIs. A client of an API must not depend on a controller or on a test library.
func TestAPIPackagesAreSmallDependencies(t *testing.T) {
	t.Parallel()
	packages := map[string]bool{}
	for _, file := range tree.Files(t, "../..", "*/api/*.go") {
		if parts := strings.Split(file, "/"); parts[1] == "api" {
			packages["./"+filepath.Dir(file)] = true
		}
	}
	if len(packages) < 6 {
		t.Fatalf("found %d packages of APIs, want at least 6", len(packages))
	}
	const format = "{{range .Imports}}{{$.ImportPath}} {{.}}\n{{end}}"
	list := exec.CommandContext(t.Context(), "go", "list", "-f", format)
	for folder := range packages {
		list.Args = append(list.Args, folder)
	}
	list.Dir = "../.."
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		importer, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
		host, _, _ := strings.Cut(imported, "/")
		switch {
		case imported == "", !strings.Contains(host, "."), // the standard library
			strings.HasPrefix(imported, "k8s.io/api/"), strings.HasPrefix(imported, "k8s.io/apimachinery/"),
			imported == "k8s.io/utils/ptr",
			strings.HasPrefix(imported, "tensorstack.dev/jobs/") && strings.Contains(imported, "/api/"):
		default:
			t.Errorf("%s imports %s", importer, imported)
		}
	}
}
