// Package mutant finds bugs that are marked in the code, on the line before the one that they replace:
//
//	//mutant:a finished job goes on => case false:
//	case v.job.Status.Finished():
//
// If nothing follows the arrow, the bug removes the line. The word before the colon selects the test that uses the bug.
package mutant

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Mutant is a bug that replaces a line of a file.
type Mutant struct {
	// Name of the bug.
	Name string
	// path is the path of the file, and line the index of the line in it.
	path string
	line int
	// code replaces the line.
	code string
}

// Marked returns the mutants that are marked with the word in the Go files below a directory, sorted by name.
func Marked(t testing.TB, root, word string) []Mutant {
	t.Helper()
	var found []Mutant
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		marked, err := parse(word, path, string(source))
		found = append(found, marked...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b Mutant) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// parse returns the mutants that are marked in a file. It returns an error for a mark that has no arrow or changes
// nothing.
func parse(word, path, source string) ([]Mutant, error) {
	prefix := "//" + word + ":"
	mark := regexp.MustCompile(`^\s*` + regexp.QuoteMeta(prefix) + `(.+?) =>(?: (.+))?$`)
	var found []Mutant
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(strings.TrimSpace(line), prefix) {
			continue
		}
		match := mark.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("%s:%d: a mark must have the form %sname => code, where the code can be empty",
				path, i+1, prefix)
		}
		next := i + 1
		for next < len(lines) && mark.MatchString(lines[next]) {
			next++
		}
		if next == len(lines) || strings.TrimSpace(lines[next]) == match[2] {
			return nil, fmt.Errorf("%s:%d: %s %q changes nothing", path, i+1, word, match[1])
		}
		found = append(found, Mutant{Name: match[1], path: path, line: next, code: match[2]})
	}
	return found, nil
}

// Apply writes the bug into its file. The file should be a copy.
func (m Mutant) Apply(t testing.TB) {
	t.Helper()
	m.writeTo(t, m.path)
}

// writeTo writes the file with the bug to a path.
func (m Mutant) writeTo(t testing.TB, path string) {
	t.Helper()
	source, err := os.ReadFile(m.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	lines[m.line] = m.code
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Overlay writes the file with the bug, and returns the path of an overlay file with which go compiles it.
func (m Mutant) Overlay(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(m.path))
	m.writeTo(t, mutated)
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{m.path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
