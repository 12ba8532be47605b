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
		"a file without marks has no mutant": {source: "a\nb"},
		"a mark with code replaces the next line": {
			source: "\t//mutant:it lies => return false\n\treturn true\n", want: []Mutant{{"it lies", path, 1, "return false"}},
		},
		"a mark without code removes the next line": {
			source: "//mutant:it forgets =>\ncount++", want: []Mutant{{"it forgets", path, 1, ""}},
		},
		"two marks are about the same line": {
			source: "//mutant:one =>\n//mutant:two => c\nb", want: []Mutant{{"one", path, 2, ""}, {"two", path, 2, "c"}},
		},
		"a mark without an arrow is an error": {
			source:  "//mutant:it lies\nb",
			wantErr: "a.go:1: a mark must have the form //mutant:name => code, where the code can be empty",
		},
		"a mark at the end of the file is an error": {
			source: "//mutant:it lies =>", wantErr: `a.go:1: mutant "it lies" changes nothing`,
		},
		"a mark with another word is ignored": {source: "//other:it lies => b\nc"},
		"a mark that changes nothing is an error": {
			source: "//mutant:it lies => b\nb", wantErr: `a.go:1: mutant "it lies" changes nothing`,
		},
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
