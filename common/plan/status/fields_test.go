package status_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"tensorstack.dev/jobs/common/internal/jobtest"
)

// Each field and each condition of the status is set in one file only, so that a reader easily finds the code that
// sets it.
func TestEachFieldAndConditionIsSetInOneFile(t *testing.T) {
	t.Parallel()
	setBy := map[string]string{}
	for file, target := range targets(t, ".") {
		for _, name := range target {
			if other := setBy[name]; other != "" && other != file {
				t.Errorf("%s is set in %s and in %s", name, other, file)
			}
			setBy[name] = file
		}
	}
	for _, name := range []string{"Phase", "Tasks", "StartTime", "ConditionRunning", "ConditionStalled"} {
		if setBy[name] == "" {
			t.Errorf("the test does not see where %s is set", name)
		}
	}
}

// The steps of package decide do not write the status of a job. Only package status does.
func TestDecisionsSetNoFieldOfTheStatus(t *testing.T) {
	t.Parallel()
	jobtest.Diff(t, "targets", map[string][]string{}, targets(t, "../decide"))
}

// targets maps each file of a package to the conditions that the file sets and to the fields of the status that it
// assigns. The status is a variable or field with the name Status.
func targets(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no files in %s: %v", dir, err)
	}
	found := map[string][]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.AssignStmt:
				for _, target := range n.Lhs {
					found[name] = append(found[name], fieldOfStatus(target)...)
				}
			case *ast.IncDecStmt:
				found[name] = append(found[name], fieldOfStatus(n.X)...)
			case *ast.CallExpr:
				found[name] = append(found[name], conditionOf(n)...)
			}
			return true
		})
		if len(found[name]) == 0 {
			delete(found, name)
		}
	}
	return found
}

// fieldOfStatus returns the name of the field in an expression such as r.Status.Phase or r.Status.Progress.Percent. The
// result is empty for other expressions.
func fieldOfStatus(e ast.Expr) []string {
	for {
		selector, ok := e.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if parent, ok := selector.X.(*ast.SelectorExpr); ok && parent.Sel.Name == "Status" {
			return []string{selector.Sel.Name}
		}
		e = selector.X
	}
}

// conditionOf returns the name of the constant that a call of setCondition uses for its condition.
func conditionOf(call *ast.CallExpr) []string {
	if function, ok := call.Fun.(*ast.SelectorExpr); !ok || function.Sel.Name != "setCondition" {
		return nil
	}
	if constant, ok := call.Args[0].(*ast.SelectorExpr); ok {
		return []string{constant.Sel.Name}
	}
	return nil
}
