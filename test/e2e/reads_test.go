package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSpecsDoNotReadStatesOnceByAccident finds flaky specs. A spec that reads a state once, while another process is
// about to change it, passes on an idle machine and fails on a busy one. Methods that read the cluster therefore
// return functions, which Gomega's Expect cannot compare. The test finds code that still reads a state only once.
func TestSpecsDoNotReadStatesOnceByAccident(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("files %q, error %v", files, err)
	}
	for _, file := range files {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range readsOnce(parsed) {
			t.Errorf("%s: %s", set.Position(found.at), found.what)
		}
	}
}

func TestReadsOnceFindsSingleReads(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]bool{
		`Expect(n.kubectl(ctx, "get", "pods")).To(BeEmpty())`:                                   true,
		`n.kubectlWith(ctx, "", "logs", "pod")`:                                                 true,
		`state := func() string { return now(n.output(ctx, "get", "pods")) }`:                   true,
		`n.kubectl(ctx, "apply", "-f", "job.yaml")`:                                             false,
		`Eventually(ctx, n.output(ctx, "get", "pods")).Should(BeEmpty())`:                       false,
		`before := now(n.replicas(ctx))`:                                                        false,
		`Entry("", func(ctx context.Context) { Expect(now(n.output(ctx, "get"))).To(Fail()) })`: false,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+statement+"\n}",
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(readsOnce(parsed)) > 0; got != want {
			t.Errorf("%s: found is %t, want %t", statement, got, want)
		}
	}
}

type finding struct {
	at   token.Pos
	what string
}

// readsOnce returns the places in a file that read the cluster only once. These are calls of kubectl with a command
// that only reads, and calls of the function now within a function literal that returns a value. Such a function
// literal should return the error of the read, so that Eventually can retry. Instead, the function now fails the spec
// after an error.
func readsOnce(file *ast.File) []finding {
	var found []finding
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(method.Sel.Name, "kubectl") && slices.ContainsFunc(n.Args, isReadingVerb) {
				found = append(found, finding{
					n.Pos(), "this reads a state once: use Eventually with output, or use now if the state no longer changes",
				})
			}
		case *ast.FuncLit:
			if n.Type.Results != nil {
				if at := callOf("now", n.Body); at.IsValid() {
					found = append(found, finding{
						at, "this function calls now and returns a value: return an error instead, so that Eventually can retry",
					})
				}
			}
		}
		return true
	})
	return found
}

// isReadingVerb reports whether an expression is a string literal with a kubectl command that only reads.
func isReadingVerb(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && slices.Contains([]string{`"get"`, `"logs"`, `"describe"`, `"events"`, `"top"`}, literal.Value)
}

// callOf returns the position of a call of the named function in a block, or token.NoPos if there is none.
func callOf(name string, block *ast.BlockStmt) (at token.Pos) {
	ast.Inspect(block, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if function, ok := call.Fun.(*ast.Ident); ok && function.Name == name {
				at = call.Pos()
			}
		}
		return true
	})
	return at
}
