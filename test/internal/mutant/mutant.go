// Package mutant reads the bugs that checks put into the code, and the bugs that no test can find. The file
// testdata/mutants.yaml of a package lists them with the lines that they change:
//
//	mutants:
//	- bug: a finished job goes on
//	  in: (*view).choose
//	  at: 'case v.job.Status.Finished():'
//	  become: 'case false:'
//	equivalents:
//	- in: minimum
//	  at: if a < b {
//	  change: boundary of a < b
//	  reason: if both are equal, either can be returned
//
// A mutant without `become` removes the line. If the line occurs several times in the function, `occurrence` selects
// one of the lines, from 1.
package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// listName is the path of the list of a package, relative to the package.
const listName = "testdata/mutants.yaml"

// List has the bugs of one or more packages.
type List struct {
	// Mutants are bugs that package explore must find when it checks all executions of small jobs.
	Mutants []Mutant `json:"mutants,omitempty"`
	// Attacks are bugs that remove a defense: with the bug, an attack by a tenant must succeed.
	Attacks []Mutant `json:"attacks,omitempty"`
	// Equivalents are bugs that no test can find. Mutation testing puts these bugs into the code.
	Equivalents []Equivalent `json:"equivalents,omitempty"`
}

// Place is a line of a function.
type Place struct {
	// In is the name of the function. Methods are named like (*T).method or T.method.
	In string `json:"in"`
	// At is the line without indentation. A comment at the end of the line can be left out.
	At string `json:"at"`
	// Occurrence is the number of the line among equal lines of the function, from 1. 0 means that there is only one
	// such line.
	Occurrence int `json:"occurrence,omitempty"`
	// Path is the path of the file.
	Path string `json:"-"`
	// Line is the number of the line in the file, from 1.
	Line int `json:"-"`
}

// Mutant is a bug that replaces a line.
type Mutant struct {
	// Bug is the name of the bug.
	Bug string `json:"bug"`
	Place
	// Become is the code that replaces the line. If it is empty, the bug removes the line.
	Become string `json:"become,omitempty"`
}

// Equivalent explains why no test can distinguish the code with a bug from the original code.
type Equivalent struct {
	Place
	// Change describes the bug as package mutation does, for example "boundary of a < b".
	Change string `json:"change"`
	// Reason is the explanation.
	Reason string `json:"reason"`
}

// Read returns the list of the package in a directory. The list is empty if the package has no file with a list. Read
// returns an error for each entry that is not complete or does not select exactly one line.
func Read(dir string) (List, error) {
	var l List
	path := filepath.Join(dir, listName)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	if err := yaml.UnmarshalStrict(content, &l); err != nil {
		return l, fmt.Errorf("reading %s: %w", path, err)
	}
	functions, err := functionsOf(dir)
	if err != nil {
		return l, err
	}
	var errs []error
	check := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", path, name, err))
		}
	}
	for _, mutants := range [][]Mutant{l.Mutants, l.Attacks} {
		for i := range mutants {
			check(mutants[i].Bug, mutants[i].complete(functions))
		}
	}
	for i := range l.Equivalents {
		check(l.Equivalents[i].Change, l.Equivalents[i].complete(functions))
	}
	return l, errors.Join(errs...)
}

// Below returns the mutants and the attacks of all packages below a directory, each sorted by name.
func Below(t testing.TB, root string) List {
	t.Helper()
	var all List
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		l, err := Read(path)
		all.Mutants = append(all.Mutants, l.Mutants...)
		all.Attacks = append(all.Attacks, l.Attacks...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, mutants := range [][]Mutant{all.Mutants, all.Attacks} {
		slices.SortFunc(mutants, func(a, b Mutant) int { return strings.Compare(a.Bug, b.Bug) })
	}
	return all
}

// complete checks the mutant and finds its line.
func (m *Mutant) complete(functions []function) error {
	if m.Bug == "" {
		return errors.New("the entry has no name: set bug")
	}
	if m.Become == m.At {
		return errors.New("the bug changes nothing: correct at or become")
	}
	return m.find(functions)
}

// complete checks the explanation and finds its line.
func (e *Equivalent) complete(functions []function) error {
	if e.Change == "" || e.Reason == "" {
		return errors.New("the entry explains nothing: set change and reason")
	}
	return e.find(functions)
}

// find sets the path and the number of the line.
func (p *Place) find(functions []function) error {
	var found []Place
	where := ""
	for _, f := range functions {
		if f.name != p.In {
			continue
		}
		where = f.path
		for i, line := range f.lines {
			if p.isAt(line) {
				found = append(found, Place{p.In, p.At, p.Occurrence, f.path, f.first + i})
			}
		}
	}
	switch {
	case where == "":
		return fmt.Errorf("the package has no function %s with the line %q: correct in, or remove the entry", p.In, p.At)
	case len(found) == 0:
		return fmt.Errorf("function %s in %s has no line %q: correct in or at, or remove the entry", p.In, where, p.At)
	case len(found) == 1 && p.Occurrence == 0:
		*p = found[0]
	case len(found) == 1:
		return fmt.Errorf("function %s in %s has one line %q: remove occurrence", p.In, where, p.At)
	case p.Occurrence < 1 || p.Occurrence > len(found):
		return fmt.Errorf("function %s in %s has %d lines %q: set occurrence to a number from 1 to %d",
			p.In, where, len(found), p.At, len(found))
	default:
		*p = found[p.Occurrence-1]
	}
	return nil
}

// isAt reports whether a line is the line p.At. Indentation and a comment at the end of the line make no difference.
func (p *Place) isAt(line string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), p.At)
	rest = strings.TrimSpace(rest)
	return ok && p.At != "" && (rest == "" || strings.HasPrefix(rest, "//"))
}

// function is a function of a package.
type function struct {
	// name is the name, with the receiver of a method.
	name string
	// path is the path of the file.
	path string
	// lines are the lines of the function, and first is the number of the first line in the file.
	lines []string
	first int
}

// functionsOf returns the functions of the package in a directory, without its tests.
func functionsOf(dir string) ([]function, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var functions []function
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(source), "\n")
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok {
				first, last := set.Position(f.Pos()).Line, set.Position(f.End()).Line
				functions = append(functions, function{nameOf(f), path, lines[first-1 : last], first})
			}
		}
	}
	return functions, nil
}

// nameOf returns the name of a function, with the receiver of a method.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := types.ExprString(f.Recv.List[0].Type)
	if strings.HasPrefix(receiver, "*") {
		receiver = "(" + receiver + ")"
	}
	return receiver + "." + f.Name.Name
}

// Apply writes the bug into the file m.Path, which should be in a copy of the repository.
func (m Mutant) Apply(t testing.TB) {
	t.Helper()
	m.writeTo(t, m.Path)
}

// writeTo writes the file with the bug to a path.
func (m Mutant) writeTo(t testing.TB, path string) {
	t.Helper()
	source, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	lines[m.Line-1] = m.Become
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Overlay writes a copy of the file with the bug, and an overlay file for go build. It returns the path of the
// overlay file. If the flag -overlay of go build has this path, go build compiles the copy instead of the original
// file.
func (m Mutant) Overlay(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(m.Path))
	m.writeTo(t, mutated)
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{m.Path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
