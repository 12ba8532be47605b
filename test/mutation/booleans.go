package mutation

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// mutateBoolean changes conditions. Each operand of && becomes true and each operand of || becomes false, as if the
// operand was missing. A whole condition becomes true in one mutant and false in another. No mutant has a wrong
// operator or a negated condition, because a test that detects a missing operand also detects these bugs.
func (w *weaver) mutateBoolean(e ast.Expr) {
	if !w.isBoolean(e) || w.isOperand(e) || w.isTarget(e) {
		return
	}
	w.mutateCondition(e, token.ILLEGAL)
}

// mutateCondition changes a condition. If the condition is an operand of && or ||, the parameter "of" is this
// operator. Otherwise, the parameter is token.ILLEGAL.
func (w *weaver) mutateCondition(e ast.Expr, of token.Token) {
	e = ast.Unparen(e)
	if not, ok := e.(*ast.UnaryExpr); ok && isLogic(not.X) {
		w.mutateCondition(not.X, opposite[of])
		return
	}
	logic, _ := e.(*ast.BinaryExpr)
	isAnd, isOr := logic != nil && logic.Op == token.LAND, logic != nil && logic.Op == token.LOR
	if of != token.LOR && !isAnd && (of != token.ILLEGAL || !w.isLoop(e)) && !isLiteral(e, "true") {
		w.around(e, "(", fmt.Sprintf(" || mutantOn(%d))", w.add(e, "always %s", w.quote(e))))
	}
	if of != token.LAND && !isOr && !isLiteral(e, "false") {
		w.around(e, "(", fmt.Sprintf(" && !mutantOn(%d))", w.add(e, "never %s", w.quote(e))))
	}
	if isAnd || isOr {
		w.mutateCondition(logic.X, logic.Op)
		w.mutateCondition(logic.Y, logic.Op)
	}
}

// opposite maps && to || and || to &&. A negation of a condition exchanges these operators.
var opposite = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}

// isLogic reports whether an expression is a condition with && or ||.
func isLogic(e ast.Expr) bool {
	logic, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && (logic.Op == token.LAND || logic.Op == token.LOR)
}

// isBoolean reports whether an expression has the type bool or is an untyped boolean. Types that are defined as bool
// do not count.
func (w *weaver) isBoolean(e ast.Expr) bool {
	basic, ok := w.info.Types[e].Type.(*types.Basic)
	return ok && basic.Info()&types.IsBoolean != 0
}

// isOperand reports whether the visited expression is a part of a larger condition. mutateCondition changes such a
// part together with the larger condition. For an expression in parentheses, isOperand also returns true, because the
// expression within is visited separately.
func (w *weaver) isOperand(e ast.Expr) bool {
	if _, ok := e.(*ast.ParenExpr); ok {
		return true
	}
	switch parent := w.parent().(type) {
	case *ast.BinaryExpr:
		return parent.Op == token.LAND || parent.Op == token.LOR
	case *ast.UnaryExpr:
		return parent.Op == token.NOT
	default:
		return false
	}
}

// isTarget reports whether the visited expression must not be changed, because Go permits no other condition in its
// place. This is true if the expression is assigned to, its address is taken, its value is dropped, it is a key, or
// one of its fields or methods is selected.
func (w *weaver) isTarget(e ast.Expr) bool {
	switch parent := w.parent().(type) {
	case *ast.AssignStmt:
		return slices.Contains(parent.Lhs, e)
	case *ast.UnaryExpr:
		return parent.Op == token.AND
	case *ast.RangeStmt:
		return parent.Key == e || parent.Value == e
	case *ast.KeyValueExpr:
		return parent.Key == e
	case *ast.IncDecStmt, *ast.ExprStmt, *ast.SelectorExpr, *ast.Field:
		return true
	}
	return false
}

// isLoop reports whether an expression is the condition of a loop. The loop would not end if the condition were always
// true.
func (w *weaver) isLoop(e ast.Expr) bool {
	loop, ok := w.parent().(*ast.ForStmt)
	return ok && ast.Unparen(loop.Cond) == e
}

func isLiteral(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}
