package mutation

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// mutateStatement omits statements, and changes ++ to -- and -- to ++.
func (w *weaver) mutateStatement(s ast.Stmt) {
	if !w.isInList(s) {
		return
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
				return
			}
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || isBlank(s.Lhs) {
			return
		}
		w.mutateAssignment(s)
	case *ast.IncDecStmt:
		opposite, word := "--", "decrement instead of increment in"
		if s.Tok == token.DEC {
			opposite, word = "++", "increment instead of decrement in"
		}
		target := string(w.source.content[w.offset(s.X.Pos()):w.offset(s.X.End())])
		id := w.add(s, "%s %s", word, w.quote(s))
		w.around(s, fmt.Sprintf("if mutantOn(%d) { %s%s } else { ", id, target, opposite), " }")
	case *ast.ReturnStmt:
		if len(s.Results) > 0 || w.isLast(s) {
			return
		}
	case *ast.BranchStmt:
		if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
			return
		}
	case *ast.DeferStmt, *ast.SendStmt:
	default:
		return
	}
	w.around(s, fmt.Sprintf("if !mutantOn(%d) { ", w.add(s, "without %s", w.quote(s))), " }")
}

// mutateAssignment changes += to -= and -= to +=.
func (w *weaver) mutateAssignment(s *ast.AssignStmt) {
	if s.Tok != token.ADD_ASSIGN && s.Tok != token.SUB_ASSIGN || !isNumber(w.info.Types[s.Lhs[0]].Type) {
		return
	}
	name := w.nameOf(w.info.Types[s.Lhs[0]].Type)
	if name == "" {
		return
	}
	id := w.add(s, "the opposite of %s", w.quote(s))
	w.around(s.Rhs[0], fmt.Sprintf("-mutantNegative[%s](%d, ", name, id), ")")
}

// isInList reports whether the visited statement is directly in a block or a case, and not part of another statement.
func (w *weaver) isInList(s ast.Stmt) bool {
	var list []ast.Stmt
	switch parent := w.parents[len(w.parents)-1].(type) {
	case *ast.BlockStmt:
		list = parent.List
	case *ast.CaseClause:
		list = parent.Body
	case *ast.CommClause:
		list = parent.Body
	}
	return slices.Contains(list, s)
}

// isLast reports whether a return without results is the last statement of a function. Such a return must stay, because
// a function with named results needs it.
func (w *weaver) isLast(s ast.Stmt) bool {
	block, ok := w.parents[len(w.parents)-1].(*ast.BlockStmt)
	if !ok || block.List[len(block.List)-1] != s || len(w.parents) < 2 {
		return false
	}
	switch w.parents[len(w.parents)-2].(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		return true
	default:
		return false
	}
}

func isBlank(targets []ast.Expr) bool {
	for _, target := range targets {
		if name, ok := target.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}
