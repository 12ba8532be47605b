package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReasonsAreConstants checks that the reasons of conditions and events are constants of an API. docs/reference is
// generated from the comments of these constants.
func TestReasonsAreConstants(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, module := range append(readVersions(t).Controllers(), "common") {
		err := filepath.WalkDir(filepath.Join("../..", module), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && slices.Contains([]string{"api", "jobtest", "kubelet", "test", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			files = append(files, file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	takes := map[string]int{"Eventf": 3}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if function, ok := node.(*ast.FuncDecl); ok {
				if at := position(function.Type.Params); at >= 0 {
					takes[function.Name.Name] = at
				}
			}
			return true
		})
	}
	checked := 0
	check := func(e ast.Expr) {
		checked++
		if literal, ok := e.(*ast.BasicLit); ok && literal.Value != `""` {
			t.Errorf("%s: the reason %s is not a constant of an API", fset.Position(e.Pos()), literal.Value)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.KeyValueExpr:
				if isReason(n.Key) {
					check(n.Value)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if isReason(to) && len(n.Rhs) == len(n.Lhs) {
						check(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if at, ok := takes[called(n)]; ok && at < len(n.Args) {
					check(n.Args[at])
				}
			case *ast.CompositeLit:
				if name, ok := n.Type.(*ast.Ident); ok && name.Name == "RefusedError" && len(n.Elts) > 0 {
					if _, keyed := n.Elts[0].(*ast.KeyValueExpr); !keyed {
						check(n.Elts[0])
					}
				}
			case *ast.FuncDecl:
				if at := position(n.Type.Results); at >= 0 && n.Body != nil {
					returned(n.Body, at, check)
				}
			}
			return true
		})
	}
	if checked < 50 {
		t.Errorf("found %d reasons, want at least 50", checked)
	}
}

// isReason reports whether an expression is a field or a variable that holds a reason.
func isReason(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "reason")
	case *ast.SelectorExpr:
		return e.Sel.Name == "Reason"
	}
	return false
}

// position returns the index of the parameter or result that is a reason, or -1 if none is.
func position(fields *ast.FieldList) int {
	at := 0
	if fields == nil {
		return -1
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			if isReason(name) {
				return at
			}
			at++
		}
	}
	return -1
}

// returned calls the function check with one result of each return statement of a function. The parameter at is the
// index of this result.
func returned(body *ast.BlockStmt, at int, check func(ast.Expr)) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if at < len(n.Results) {
				check(n.Results[at])
			}
		}
		return true
	})
}
