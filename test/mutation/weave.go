package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// weaver writes the mutants of a file into its text. It never inserts a line, so that compiler errors and panics have
// the line numbers of the original.
type weaver struct {
	*pkg
	source *source
	// path is the value of Mutant.File.
	path    string
	mutants []Mutant
	// firstID is the ID of the first mutant.
	firstID int
	// wraps maps a node to the texts around it, the outermost first.
	wraps map[ast.Node][]wrap
	// replaced has the edits that replace operators and names of builtins.
	replaced []edit
	// parents are the nodes around the visited node, beginning with the file.
	parents []ast.Node
}

// wrap is the text before and after a node.
type wrap struct{ before, after string }

// edit replaces the text between two offsets.
type edit struct {
	start, end int
	text       string
}

// weave returns the mutants of a file, with IDs from firstID, and the text of the file with all mutants.
func weave(p *pkg, s *source, path string, firstID int) ([]Mutant, []byte) {
	w := &weaver{pkg: p, source: s, path: path, firstID: firstID, wraps: map[ast.Node][]wrap{}}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if n == nil {
			w.parents = w.parents[:len(w.parents)-1]
			return false
		}
		if isFixed(n) || w.isImpure(n) {
			return false
		}
		w.mutate(n)
		w.parents = append(w.parents, n)
		return true
	})
	return w.mutants, w.text()
}

// isFixed reports whether a node has no mutants because the compiler evaluates the node: a type, or a declaration of
// constants, imports or types.
func isFixed(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.CONST || n.Tok == token.IMPORT || n.Tok == token.TYPE
	case *ast.ArrayType, *ast.FuncType, *ast.MapType, *ast.StructType, *ast.InterfaceType, *ast.FieldList:
		return true
	default:
		return false
	}
}

// impure are types of parameters. A function with such a parameter only carries out decisions, and has no mutants.
var impure = []string{"context.Context", "sigs.k8s.io/controller-runtime/pkg/manager.Manager"}

// isImpure reports whether a node is a function that takes a context or a manager.
func (w *weaver) isImpure(n ast.Node) bool {
	var function *ast.FuncType
	switch n := n.(type) {
	case *ast.FuncDecl:
		function = n.Type
	case *ast.FuncLit:
		function = n.Type
	default:
		return false
	}
	return slices.ContainsFunc(function.Params.List, func(f *ast.Field) bool {
		return slices.Contains(impure, types.TypeString(types.Unalias(w.info.Types[f.Type].Type), nil))
	})
}

// mutate applies the operators to a node.
func (w *weaver) mutate(n ast.Node) {
	if s, ok := n.(ast.Stmt); ok {
		w.mutateStatement(s)
		return
	}
	e, ok := n.(ast.Expr)
	if !ok {
		return
	}
	if of, ok := w.info.Types[e]; !ok || !of.IsValue() {
		return
	}
	w.mutateBoolean(e)
	w.mutateValue(e)
}

// parent returns the node around the visited node. It skips parentheses.
func (w *weaver) parent() ast.Node {
	for _, p := range slices.Backward(w.parents) {
		if _, ok := p.(*ast.ParenExpr); !ok {
			return p
		}
	}
	return nil
}

// add adds a mutant at a node and returns its ID.
func (w *weaver) add(at ast.Node, format string, args ...any) int {
	id := w.firstID + len(w.mutants)
	w.mutants = append(w.mutants, Mutant{
		ID: id, File: w.path, Line: w.fset.Position(at.Pos()).Line, Change: fmt.Sprintf(format, args...),
	})
	return id
}

// around adds text before and after a node. A later call for the same node adds its text inside the earlier text.
func (w *weaver) around(n ast.Node, before, after string) {
	w.wraps[n] = append(w.wraps[n], wrap{before, after})
}

// replace replaces a token by a text.
func (w *weaver) replace(at token.Pos, tok token.Token, text string) {
	start := w.offset(at)
	w.replaced = append(w.replaced, edit{start, start + len(tok.String()), text})
}

// maxQuoted is the highest number of bytes of code that the description of a mutant quotes.
const maxQuoted = 60

// quote returns the code of a node on one line. It shortens long code.
func (w *weaver) quote(n ast.Node) string {
	code := strings.Join(strings.Fields(string(w.source.content[w.offset(n.Pos()):w.offset(n.End())])), " ")
	if len(code) > maxQuoted {
		code = strings.ToValidUTF8(code[:maxQuoted], "") + "..."
	}
	return code
}

func (w *weaver) offset(at token.Pos) int { return w.fset.Position(at).Offset }

// nameOf returns the name of a type as the code of the file writes it. The name is empty if the file does not import
// the package of the type.
func (w *weaver) nameOf(t types.Type) string {
	isKnown := true
	name := types.TypeString(t, func(of *types.Package) string {
		if of == w.own {
			return ""
		}
		for _, spec := range w.source.syntax.Imports {
			if strings.Trim(spec.Path.Value, `"`) != of.Path() {
				continue
			}
			if spec.Name != nil {
				return spec.Name.Name
			}
			return of.Name()
		}
		isKnown = false
		return ""
	})
	if !isKnown {
		return ""
	}
	return name
}

// text returns the text of the file with all mutants.
func (w *weaver) text() []byte {
	var edits []edit
	insert := func(at token.Pos, text string) {
		edits = append(edits, edit{w.offset(at), w.offset(at), text})
	}
	var stack []ast.Node
	ast.Inspect(w.source.syntax, func(n ast.Node) bool {
		if n == nil {
			done := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, wrap := range slices.Backward(w.wraps[done]) {
				insert(done.End(), wrap.after)
			}
			return false
		}
		stack = append(stack, n)
		for _, wrap := range w.wraps[n] {
			insert(n.Pos(), wrap.before)
		}
		return true
	})
	edits = append(edits, w.replaced...)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var text bytes.Buffer
	last := 0
	for _, e := range edits {
		text.Write(w.source.content[last:e.start])
		text.WriteString(e.text)
		last = e.end
	}
	text.Write(w.source.content[last:])
	return text.Bytes()
}
