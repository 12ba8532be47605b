package mutation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRun runs all steps on a temporary module. In one function of the module, the tests detect the mutants of all
// operators. In another function, they detect no mutant.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("the test compiles a module")
	}
	t.Setenv("GOWORK", "off")
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/shop\n\ngo 1.26\n")
	write("price/price.go", `package price

import (
	"cmp"
	"context"
	"time"
)

type Offer struct {
	Name  string
	Price int
	Until time.Duration
}

// Best has tests that detect all mutants.
func Best(offers []Offer, most int, kind string) (Offer, int) {
	best, seen := Offer{Price: most + 1}, 0
	for i := 0; i < len(offers); i++ {
		o := offers[i]
		seen++
		if o.Until <= 0 || o.Name == "" && kind != "any" {
			continue
		}
		switch kind {
		case "half":
			o.Price /= 2
			o.Price = max(o.Price, -most*3%7)
		}
		if o.Price < best.Price {
			best = Offer{Name: cmp.Or(o.Name, "unnamed"), Price: o.Price, Until: o.Until - time.Second}
		}
	}
	return best, seen
}

// Untested has no test.
func Untested(n int) bool { return n > 1 }

// Equal has a mutant that no test can detect.
func Equal(n int) int {
	if n > 0 {
		return n
	}
	return -n
}

// Send takes a context, so it has no mutants.
func Send(_ context.Context, n int) int { return n + 1 }
`)
	write("price/price_test.go", `package price

import (
	"testing"
	"time"
)

func TestBest(t *testing.T) {
	for _, c := range []struct {
		offers []Offer
		kind   string
		want   Offer
		seen   int
	}{
		{nil, "", Offer{Price: 101}, 0},
		{
			[]Offer{{"a", 9, time.Hour}, {"b", 7, time.Minute}, {"c", 8, time.Hour}, {"d", 7, 1}}, "",
			Offer{"b", 7, time.Minute - time.Second}, 4,
		},
		{[]Offer{{"a", 9, 0}, {"", 7, time.Hour}, {"c", 101, time.Hour}}, "", Offer{Price: 101}, 3},
		{[]Offer{{"", 7, time.Hour}}, "any", Offer{"unnamed", 7, time.Hour - time.Second}, 1},
		{[]Offer{{"a", 100, time.Hour}}, "", Offer{"a", 100, time.Hour - time.Second}, 1},
		{[]Offer{{"a", 8, time.Hour}}, "half", Offer{"a", 4, time.Hour - time.Second}, 1},
		{[]Offer{{"a", -20, time.Hour}}, "half", Offer{"a", -6, time.Hour - time.Second}, 1},
	} {
		if got, seen := Best(c.offers, 100, c.kind); got != c.want || seen != c.seen {
			t.Errorf("%v %q: %v %d", c.offers, c.kind, got, seen)
		}
	}
}

func TestEqual(t *testing.T) {
	if Equal(2) != 2 || Equal(-2) != 2 {
		t.Fail()
	}
}
`)
	write("price/testdata/mutants.yaml", `equivalents:
- in: Equal
  at: if n > 0 {
  change: boundary of n > 0
  reason: 0 is its own opposite
`)
	write("behind/behind_test.go", `package behind

import (
	"testing"

	"example.com/shop/price"
)

func TestUntested(t *testing.T) {
	if !price.Untested(3) || price.Untested(0) {
		t.Fail()
	}
}
`)
	for name, tc := range map[string]struct {
		p          Package
		behind     bool
		want       Score
		wantOutput string
		wantErr    string
	}{
		"the number of mutants found behind is kept": {
			p: Package{Path: "price", Behind: "behind", Score: Score{
				Mutants: 10, Killed: 9, Left: map[string]int{"price/price.go": 3}, KilledBehind: new(1),
			}},
			want: Score{
				Mutants: 41, Killed: 37, Explained: 1, Left: map[string]int{"price/price.go": 3}, KilledBehind: new(1),
			},
			wantOutput: `price/price.go:37: always n > 1
price/price.go:37: never n > 1
price/price.go:37: boundary of n > 1
price: unit tests find 37 of 41 bugs, no test can find 1, 3 survive: 92.5 %

`,
		},
		"the package behind finds some of the survivors": {
			p:      Package{Path: "price", Behind: "behind", Score: Score{Left: map[string]int{"price/price.go": 3}}},
			behind: true,
			want: Score{
				Mutants: 41, Killed: 37, Explained: 1, Left: map[string]int{"price/price.go": 3}, KilledBehind: new(2),
			},
			wantOutput: `price/price.go:37: always n > 1 (found by behind)
price/price.go:37: never n > 1 (found by behind)
price/price.go:37: boundary of n > 1
price: unit tests find 37 of 41 bugs, no test can find 1, 3 survive: 92.5 %

`,
		},
		"more survivors and a lower score are an error": {
			p:    Package{Path: "price", Score: Score{Mutants: 40, Killed: 38, Left: map[string]int{"price/price.go": 2}}},
			want: Score{Mutants: 41, Killed: 37, Explained: 1, Left: map[string]int{"price/price.go": 3}},
			wantOutput: `price/price.go:37: always n > 1
price/price.go:37: never n > 1
price/price.go:37: boundary of n > 1
price: unit tests find 37 of 41 bugs, no test can find 1, 3 survive: 92.5 %

`,
			wantErr: "the score is 92.5 %, which is below the recorded 95.0 %\n3 mutants of price/price.go survive, " +
				"and 2 are recorded: write a test, or explain them in testdata/mutants.yaml",
		},
		"only the named files have mutants": {
			p:          Package{Path: "price", Files: []string{"other.go"}},
			want:       Score{Left: map[string]int{}},
			wantOutput: "price: unit tests find 0 of 0 bugs, no test can find 0, 0 survive: 0.0 %\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var output strings.Builder
			runner := &Runner{Root: root, Output: &output, Behind: tc.behind, Parallel: 2}
			score, err := runner.Run(t.Context(), tc.p)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != tc.wantErr {
				t.Errorf("error %q, want %q", message, tc.wantErr)
			}
			if diff := cmp.Diff(tc.wantOutput, output.String()); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, score); diff != "" {
				t.Errorf("unexpected score (-want +got):\n%s", diff)
			}
		})
	}
}
