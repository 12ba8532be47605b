package mutant

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/tree"
)

// listed is a package as `go list` prints it.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

// TestEveryBugCompiles checks the types of each package with each of its bugs. A bug that does not compile would fail
// only in the long checks that put it into the code.
func TestEveryBugCompiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	bugs := map[string][]Mutant{}
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles")
	list.Dir = root
	for _, file := range tree.Files(t, root, "*/"+listName) {
		folder := strings.TrimSuffix(file, "/"+listName)
		l, err := Read(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		if found := slices.Concat(l.Mutants, l.Attacks); len(found) > 0 {
			absolute, err := filepath.Abs(filepath.Join(root, folder))
			if err != nil {
				t.Fatal(err)
			}
			bugs[absolute] = found
			list.Args = append(list.Args, "./"+folder)
		}
	}
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatalf("listing the packages with bugs: %v", err)
	}
	exports := map[string]string{}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var next listed
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[next.ImportPath] = next.Export
		if bugs[next.Dir] != nil {
			packages = append(packages, next)
		}
	}
	if len(packages) != len(bugs) {
		t.Errorf("found %d packages with bugs, want %d", len(packages), len(bugs))
	}
	set := token.NewFileSet()
	shared := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	checked := 0
	for _, p := range packages {
		sources := map[string]*ast.File{}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			if sources[name], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
		for _, bug := range bugs[p.Dir] {
			checked++
			changed := filepath.Join(t.TempDir(), filepath.Base(bug.Path))
			bug.writeTo(t, changed)
			syntax, err := parser.ParseFile(set, changed, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%q: %v", bug.Bug, err)
				continue
			}
			files := []*ast.File{syntax}
			for name, source := range sources {
				if name != filepath.Base(bug.Path) {
					files = append(files, source)
				}
			}
			config := types.Config{Importer: shared}
			if _, err := config.Check(p.ImportPath, set, files, nil); err != nil {
				t.Errorf("%q in %s does not compile: %v", bug.Bug, bug.Path, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("checked %d bugs, want at least 100", checked)
	}
}
