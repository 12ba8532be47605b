package repository

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		_, rows, _ := strings.Cut(string(content), "\n| Folder | Content |")
		for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9]+`(?:, )?)+) \\|").FindAllStringSubmatch(rows, -1) {
			for folder := range strings.SplitSeq(row[1], ", ") {
				if !folders[strings.Trim(folder, "`")] {
					t.Errorf("%s/README.md names the folder %s, which has no Go files", module, folder)
				}
			}
		}
		for folder := range folders {
			if !strings.Contains(string(content), "`"+folder+"`") {
				t.Errorf("%s/README.md does not name the folder %s", module, folder)
			}
		}
	}
}

// TestKitListsTheFileOfEachBehavior checks the table of behaviors in kit/README.md. It must name the folders that have
// the file of a behavior, and each file name that several of these folders share.
func TestKitListsTheFileOfEachBehavior(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../kit/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "\n| Behavior | File | Folders |\n")
	listed, found := map[string]string{}, map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| .+ \\| `([a-z]+\\.go)` \\| (.+) \\|$")
	for _, row := range rows.FindAllStringSubmatch(table, -1) {
		listed[row[1]] = strings.ReplaceAll(row[2], "`", "")
	}
	for _, folder := range []string{"model", "conformance", "explore"} {
		for _, file := range tree.Files(t, "../..", "kit/"+folder+"/*.go") {
			name := filepath.Base(file)
			found[name] = strings.TrimPrefix(found[name]+", "+folder, ", ")
		}
	}
	maps.DeleteFunc(found, func(name, folders string) bool {
		return listed[name] == "" && !strings.Contains(folders, ", ")
	})
	if diff := cmp.Diff(found, listed); diff != "" || len(listed) < 10 {
		t.Errorf("unexpected files in the table of behaviors (-kit +README.md):\n%s", diff)
	}
}

// TestPublicPackagesAreListed checks that the table of public packages in common/README.md and the list of their names
// are about the same packages.
func TestPublicPackagesAreListed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../common/README.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../../common/exported.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "\n| Package | Use |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var public, listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		public = append(public, row[1])
	}
	for _, heading := range regexp.MustCompile(`(?m)^([a-z][\w/]*)$`).FindAllStringSubmatch(string(list), -1) {
		listed = append(listed, heading[1])
	}
	if diff := cmp.Diff(public, listed); diff != "" || len(public) < 5 {
		t.Errorf("unexpected packages (-README.md +exported.txt):\n%s", diff)
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
	list.Dir, list.Stderr = "../..", os.Stderr
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
