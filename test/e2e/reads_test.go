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

// A spec that reads a state once, which something else is about to bring about, passes on an idle machine and fails on
// a busy one. What reads the cluster returns a function, which Gomega's Expect cannot compare; this test finds what
// gets around that.
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

func TestReadsOnceFindsWhatReadsOnce(t *testing.T) {
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

// readsOnce returns the calls of a file that read the cluster once without saying so.
func readsOnce(file *ast.File) []finding {
	var found []finding
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(method.Sel.Name, "kubectl") && slices.ContainsFunc(n.Args, isReadingVerb) {
				found = append(found, finding{
					n.Pos(), "this reads a state once: use Eventually with output, or now if it cannot change any more",
				})
			}
		case *ast.FuncLit:
			if n.Type.Results != nil {
				if at := callOf("now", n.Body); at.IsValid() {
					found = append(found, finding{
						at, "now in a function that returns what it reads: return an error instead, for Eventually to try again",
					})
				}
			}
		}
		return true
	})
	return found
}

// isReadingVerb reports whether an expression is a literal with a verb of kubectl that only reads.
func isReadingVerb(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && slices.Contains([]string{`"get"`, `"logs"`, `"describe"`, `"events"`, `"top"`}, literal.Value)
}

// callOf returns where a function of that name is called in a block, if it is.
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
