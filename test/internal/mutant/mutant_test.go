package mutant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const path = "a.go"
	for name, tc := range map[string]struct {
		source  string
		want    []Mutant
		wantErr string
	}{
		"no mark": {source: "a\nb"},
		"a line that is replaced": {
			source: "\t//mutant:it lies => return false\n\treturn true\n", want: []Mutant{{"it lies", path, 1, "return false"}},
		},
		"a line that is removed": {source: "//mutant:it forgets =>\ncount++", want: []Mutant{{"it forgets", path, 1, ""}}},
		"two mutants of one line": {
			source: "//mutant:one =>\n//mutant:two => c\nb", want: []Mutant{{"one", path, 2, ""}, {"two", path, 2, "c"}},
		},
		"a mark without an arrow": {
			source: "//mutant:it lies\nb", wantErr: "a.go:1: a mark is //mutant:name => code, and the code may be missing",
		},
		"a mark at the end":      {source: "//mutant:it lies =>", wantErr: `a.go:1: mutant "it lies" changes nothing`},
		"a mark by another word": {source: "//other:it lies => b\nc"},
		"a mark of no change":    {source: "//mutant:it lies => b\nb", wantErr: `a.go:1: mutant "it lies" changes nothing`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse("mutant", path, tc.source)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(Mutant{})); diff != "" {
				t.Errorf("unexpected mutants (-want +got):\n%s", diff)
			}
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != tc.wantErr {
				t.Errorf("error %q, want %q", message, tc.wantErr)
			}
		})
	}
}
