// Package repository checks files that concern several modules: documents, manifests and versions. Its tests run
// without Go's test cache, which does not notice changes of files in other modules.
package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// folder is the folder of the documents.
const folder = "../../docs"

var (
	definition = regexp.MustCompile(`(?m)^\[([^\]]+)\]: (\S+)$`)
	// reference matches a link whose target is defined elsewhere: [text][name], or [name] if the text is the name.
	reference = regexp.MustCompile(`\[([^\]]+)\](?:\[([^\]]+)\])?`)
)

// TestKnownProblemsHaveTheirTests checks docs/contribute/known-problems.md. Every problem must have a report and a
// test, and every test must exist in the file to which its link leads.
func TestKnownProblemsHaveTheirTests(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(folder, "contribute", "known-problems.md"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{}
	for _, d := range definition.FindAllStringSubmatch(string(content), -1) {
		targets[d[1]] = d[2]
	}
	used := map[string]bool{}
	rows := tableRows(string(content))
	if len(rows) == 0 {
		t.Error("the document lists no problem")
	}
	for _, row := range rows {
		if len(row) != 4 {
			t.Errorf("a row has %d columns: %q", len(row), row)
			continue
		}
		problem, reports, tests := row[0], row[1], row[3]
		if len(reference.FindAllString(reports, -1)) == 0 || len(reference.FindAllString(tests, -1)) == 0 {
			t.Errorf("%q has no report or no test", problem)
		}
		for _, r := range reference.FindAllStringSubmatch(reports, -1) {
			target := r[len(r)-1]
			if target == "" {
				target = r[1]
			}
			used[target] = true
			if !strings.HasPrefix(targets[target], "https://github.com/") {
				t.Errorf("%q: the report %s does not link to GitHub", problem, r[0])
			}
		}
		for _, r := range reference.FindAllStringSubmatch(tests, -1) {
			name, target := r[1], r[2]
			used[target] = true
			if targets[target] == "" {
				t.Errorf("%q: the test %q links to no file", problem, name)
			} else if file := filepath.Join(folder, "contribute", targets[target]); !slices.Contains(testNames(t, file), name) {
				t.Errorf("%q: %s has no test %q", problem, file, name)
			}
		}
	}
	for name := range targets {
		if !used[name] {
			t.Errorf("no row refers to [%s]", name)
		}
	}
}

// tableRows returns the cells of all table rows of a document, without the headings.
func tableRows(document string) [][]string {
	var rows [][]string
	inTable := false
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "| ---"):
			inTable = true
		case inTable:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// testNames returns the names of the tests in a file: test functions, the names in calls of Ginkgo and Run, and the
// names of table cases, which are map keys or fields called name.
func testNames(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	add := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if name, err := strconv.Unquote(literal.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				names = append(names, n.Name.Name)
			}
		case *ast.CallExpr:
			if len(n.Args) > 0 && slices.Contains([]string{"It", "Entry", "DescribeTable", "Run"}, called(n)) {
				add(n.Args[0])
			}
		case *ast.KeyValueExpr:
			if field, ok := n.Key.(*ast.Ident); !ok {
				add(n.Key)
			} else if field.Name == "name" {
				add(n.Value)
			}
		}
		return true
	})
	return names
}

// called returns the name of the called function or method.
func called(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	}
	return ""
}
