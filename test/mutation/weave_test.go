package mutation

import (
	"go/token"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declarations are the variables and functions that the code of the cases uses.
const declarations = "\nvar n, m int; var text string; var a, b, c bool; type point struct { X int }; " +
	"func noop() {}; func sum(int) int { return 0 }"

func TestWeave(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// code is in a function with two int results.
		code string
		want []string
		// wantCode is the code with the mutants. Empty means that the code is not checked.
		wantCode string
	}{
		"a condition becomes true and false": {
			code: "if a { noop() }", want: []string{"always a", "never a", "without noop()"},
			wantCode: "if ((a && !mutantOn(2)) || mutantOn(1)) { if !mutantOn(3) { noop() } }",
		},
		"an operand of && is omitted, and the whole becomes false": {
			code: "_ = a && b", want: []string{"never a && b", "always a", "always b"},
			wantCode: "_ = ((a || mutantOn(2)) && (b || mutantOn(3)) && !mutantOn(1))",
		},
		"an operand of || is omitted, and the whole becomes true": {
			code: "_ = a || b", want: []string{"always a || b", "never a", "never b"},
			wantCode: "_ = ((a && !mutantOn(2)) || (b && !mutantOn(3)) || mutantOn(1))",
		},
		"an || within && is omitted as a whole, and so is each operand": {
			code: "_ = a && (b || c)", want: []string{"never a && (b || c)", "always a", "always b || c", "never b", "never c"},
		},
		"a negated || is changed like an &&": {
			code: "_ = !(a || b) && c", want: []string{"never !(a || b) && c", "never a", "never b", "always c"},
		},
		"a negation is changed as a whole": {code: "_ = !a", want: []string{"always !a", "never !a"}},
		"a loop is never made endless":     {code: "for a { noop() }", want: []string{"never a", "without noop()"}},
		"an order is changed at its boundary": {
			code: "_ = n < m", want: []string{"always n < m", "never n < m", "boundary of n < m"},
		},
		"an order of strings is changed": {
			code: `_ = text >= "a"`, want: []string{`always text >= "a"`, `never text >= "a"`, `boundary of text >= "a"`},
		},
		"a case with a condition becomes true and false": {
			code: "switch { case a: noop() }", want: []string{"always a", "never a", "without noop()"},
		},
		"a case of a switch on a number never matches": {
			code: "switch n { case 1, 2: }", want: []string{"without case 1", "without case 2"},
			wantCode: "switch n { case mutantInt[int](1, 1), mutantInt[int](2, 2): }",
		},
		"a case of a switch on a string never matches": {
			code: `switch text { case "a": }`, want: []string{`without case "a"`},
			wantCode: `switch text { case mutantText[string](1, "a"): }`,
		},
		"a plus becomes a minus": {
			code: "_ = n + 1", want: []string{"minus instead of plus in n + 1"}, wantCode: "_ = mutantAdd(1, n , 1)",
		},
		"a minus becomes a plus":        {code: "_ = n - m", want: []string{"plus instead of minus in n - m"}},
		"a product becomes a division":  {code: "_ = n * m", want: []string{"division instead of product in n * m"}},
		"a division becomes a product":  {code: "_ = n / m", want: []string{"product instead of division in n / m"}},
		"a remainder becomes a product": {code: "_ = n % m", want: []string{"product instead of remainder in n % m"}},
		"a sign is dropped": {
			code: "_ = -n", want: []string{"plus instead of minus in -n"}, wantCode: "_ = mutantNegative(1, n)",
		},
		"a concatenation of strings stays": {code: `_ = text + "a"`},
		"a constant stays":                 {code: "const one = 1 + 2; _ = one * 2"},
		"min becomes max": {
			code: "_ = min(n, 1)", want: []string{"max instead of min in min(n, 1)"}, wantCode: "_ = mutantMin(1, n, 1)",
		},
		"max becomes min": {code: "_ = max(n, m)", want: []string{"min instead of max in max(n, m)"}},
		"an assignment is omitted": {
			code: "n = m", want: []string{"without n = m"}, wantCode: "if !mutantOn(1) { n = m }",
		},
		"the declaration of a variable stays": {code: "x := m; _ = x"},
		"an increment counts down or is omitted": {
			code: "n++", want: []string{"decrement instead of increment in n++", "without n++"},
			wantCode: "if mutantOn(1) { n-- } else { if !mutantOn(2) { n++ } }",
		},
		"a decrement counts up or is omitted": {
			code: "n--", want: []string{"increment instead of decrement in n--", "without n--"},
		},
		"an addition assignment subtracts or is omitted": {
			code: "n += m", want: []string{"the opposite of n += m", "without n += m"},
			wantCode: "if !mutantOn(2) { n += -mutantNegative[int](1, m) }",
		},
		"a continue is omitted":      {code: "for range n { continue }", want: []string{"without continue"}},
		"a deferred call is omitted": {code: "defer noop()", want: []string{"without defer noop()"}},
		"a panic stays":              {code: `panic("never")`},
		"a field of a struct becomes zero": {
			code: "_ = point{X: n}", want: []string{"zero instead of n"}, wantCode: "_ = point{X: mutantZero(1, n)}",
		},
		"a constant field has the type of the field": {
			code: "_ = point{X: 7}", want: []string{"zero instead of 7"}, wantCode: "_ = point{X: mutantZero[int](1, 7)}",
		},
		"a field that is zero stays": {code: "_ = point{X: 0}"},
		"an empty struct stays":      {code: "_ = struct{ Y point }{Y: point{}}"},
		"an element of a map stays":  {code: `_ = map[string]int{"a": n}`},
		"results become zero": {
			code: "return sum(n), m", want: []string{"zero instead of sum(n)", "zero instead of m"},
			wantCode: "return mutantZero(1, sum(n)), mutantZero(2, m)",
		},
		"several operators change the same expression": {
			code: "return n + m, 0", want: []string{"zero instead of n + m", "minus instead of plus in n + m"},
			wantCode: "return mutantZero(1, mutantAdd(2, n , m)), 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ending := ""
			if !strings.Contains(tc.code, "return") && !strings.Contains(tc.code, "panic") {
				ending = "; return 0, 0"
			}
			p := parsed(t, "package p; func f() (int, int) { "+tc.code+ending+" }"+declarations)
			mutants, text := weave(p, p.files[0], "p.go", 1)
			var got []string
			for _, m := range mutants {
				got = append(got, m.Change)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected mutants (-want +got):\n%s", diff)
			}
			_, code, _ := strings.Cut(string(text), "(int, int) { ")
			code, _, _ = strings.Cut(code, ending+" }\n")
			if tc.wantCode != "" && code != tc.wantCode {
				t.Errorf("the code is\n%s\nwant\n%s", code, tc.wantCode)
			}
		})
	}
}

// parsed returns a package with one file that imports nothing.
func parsed(t *testing.T, source string) *pkg {
	t.Helper()
	p := &pkg{name: "p", fset: token.NewFileSet()}
	if err := p.parse("p.go", []byte(source)); err != nil {
		t.Fatalf("%v:\n%s", err, source)
	}
	if err := p.check("p", func(string) (io.ReadCloser, error) { return nil, os.ErrNotExist }); err != nil {
		t.Fatalf("%v:\n%s", err, source)
	}
	return p
}
