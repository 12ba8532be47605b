package mutation

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// operators maps an operator of arithmetic or order to the words that describe its change, and to the function of
// switch.go.txt that makes the change.
var operators = map[token.Token]struct{ word, function string }{
	token.LSS: {"boundary of", "mutantLess"},
	token.LEQ: {"boundary of", "mutantLessOrEqual"},
	token.GTR: {"boundary of", "mutantGreater"},
	token.GEQ: {"boundary of", "mutantGreaterOrEqual"},
	token.ADD: {"minus instead of plus in", "mutantAdd"},
	token.SUB: {"plus instead of minus in", "mutantSubtract"},
	token.MUL: {"division instead of product in", "mutantMultiply"},
	token.QUO: {"product instead of division in", "mutantDivide"},
	token.REM: {"product instead of remainder in", "mutantRemainder"},
}

// mutateValue changes the operators of calculations and comparisons, min to max, and max to min. It also replaces
// results, fields of structs and arguments of cmp.Or by zero. It changes cases of a switch so that no value matches
// them.
func (w *weaver) mutateValue(e ast.Expr) {
	if w.isZeroed(e) {
		w.zero(e)
	}
	if w.isCase(e) {
		w.neverMatch(e)
	}
	isConstant := w.info.Types[e].Value != nil
	switch e := e.(type) {
	case *ast.BinaryExpr:
		operator, ok := operators[e.Op]
		if operand := w.info.Types[e.X].Type; isConstant || !ok || !isNumber(operand) &&
			(!isOrder(e.Op) || !isText(operand)) {
			break
		}
		w.around(e, fmt.Sprintf("%s(%d, ", operator.function, w.add(e, "%s %s", operator.word, w.quote(e))), ")")
		w.replace(e.OpPos, e.Op, ",")
	case *ast.UnaryExpr:
		if e.Op == token.SUB && !isConstant {
			w.around(e, fmt.Sprintf("mutantNegative(%d, ", w.add(e, "plus instead of minus in %s", w.quote(e))), ")")
			w.replace(e.OpPos, e.Op, "")
		}
	case *ast.CallExpr:
		w.mutateBuiltin(e, isConstant)
	}
}

// mutateBuiltin changes min to max, and max to min.
func (w *weaver) mutateBuiltin(call *ast.CallExpr, isConstant bool) {
	name, ok := call.Fun.(*ast.Ident)
	if !ok || isConstant {
		return
	}
	if _, isBuiltin := w.info.Uses[name].(*types.Builtin); !isBuiltin || len(call.Args) < 2 {
		return
	}
	switch name.Name {
	case "min":
		w.call(call, "mutantMin", w.add(call, "max instead of min in %s", w.quote(call)))
	case "max":
		w.call(call, "mutantMax", w.add(call, "min instead of max in %s", w.quote(call)))
	}
}

// call replaces the builtin of a call by a function of switch.go.txt, which gets the id of the mutant as its first
// argument.
func (w *weaver) call(call *ast.CallExpr, function string, id int) {
	text := fmt.Sprintf("%s(%d, ", function, id)
	w.replaced = append(w.replaced, edit{w.offset(call.Pos()), w.offset(call.Lparen) + 1, text})
}

// isZeroed reports whether a mutant replaces the visited expression by zero. The expression must be a result, the
// value of a field, or an argument of cmp.Or. Conditions are excluded because mutateBoolean changes them.
func (w *weaver) isZeroed(e ast.Expr) bool {
	if w.isBoolean(e) {
		return false
	}
	switch parent := w.parents[len(w.parents)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.KeyValueExpr:
		literal, ok := w.parents[len(w.parents)-2].(*ast.CompositeLit)
		if !ok || parent.Value != e {
			return false
		}
		of := w.info.Types[literal].Type.Underlying()
		if pointer, ok := of.(*types.Pointer); ok {
			of = pointer.Elem().Underlying()
		}
		_, isStruct := of.(*types.Struct)
		return isStruct
	case *ast.CallExpr:
		return parent.Fun != e && w.isOr(parent.Fun)
	default:
		return false
	}
}

// isOr reports whether a function is cmp.Or.
func (w *weaver) isOr(function ast.Expr) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	called, ok := w.info.Uses[selector.Sel].(*types.Func)
	return ok && called.FullName() == "cmp.Or"
}

// zero replaces a value by the zero value of its type.
func (w *weaver) zero(e ast.Expr) {
	of := w.info.Types[e]
	_, isFunction := e.(*ast.FuncLit)
	_, isTuple := of.Type.(*types.Tuple)
	if isFunction || isTuple || of.IsNil() || isZero(of.Value) || isEmpty(e) {
		return
	}
	function := "mutantZero"
	if of.Value != nil { // without a type argument, an untyped constant would get its default type
		name := w.nameOf(of.Type)
		if name == "" {
			return
		}
		function += "[" + name + "]"
	}
	w.around(e, fmt.Sprintf("%s(%d, ", function, w.add(e, "zero instead of %s", w.quote(e))), ")")
}

// isCase reports whether the visited expression is a case of a switch on a value.
func (w *weaver) isCase(e ast.Expr) bool {
	clause, ok := w.parents[len(w.parents)-1].(*ast.CaseClause)
	if !ok || w.isBoolean(e) {
		return false
	}
	return slices.Contains(clause.List, e)
}

// neverMatch changes a case of a switch so that no value matches it.
func (w *weaver) neverMatch(e ast.Expr) {
	of := w.info.Types[e].Type
	name := w.nameOf(of)
	function := "mutantInt"
	switch {
	case name == "":
		return
	case isText(of):
		function = "mutantText"
	case !isNumber(of):
		return
	}
	w.around(e, fmt.Sprintf("%s[%s](%d, ", function, name, w.add(e, "without case %s", w.quote(e))), ")")
}

// isEmpty reports whether an expression is a literal without elements. An empty literal of a struct is already zero.
func isEmpty(e ast.Expr) bool {
	literal, ok := e.(*ast.CompositeLit)
	return ok && len(literal.Elts) == 0
}

func isOrder(op token.Token) bool {
	return op == token.LSS || op == token.LEQ || op == token.GTR || op == token.GEQ
}

func isNumber(t types.Type) bool { return hasInfo(t, types.IsInteger|types.IsFloat) }

func isText(t types.Type) bool { return hasInfo(t, types.IsString) }

func hasInfo(t types.Type, info types.BasicInfo) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&info != 0
}

func isZero(value constant.Value) bool {
	if value == nil {
		return false
	}
	switch value.Kind() {
	case constant.String:
		return constant.StringVal(value) == ""
	case constant.Int, constant.Float:
		return constant.Sign(value) == 0
	default:
		return true
	}
}
