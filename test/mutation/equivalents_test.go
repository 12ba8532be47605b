package mutation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/test/internal/mutant"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	always, never := Mutant{1, "a.go", 3, "always a"}, Mutant{2, "a.go", 3, "never a"}
	entry := func(path string, line int) []mutant.Equivalent {
		return []mutant.Equivalent{{Place: mutant.Place{In: "f", Path: path, Line: line}, Change: "always a"}}
	}
	for name, tc := range map[string]struct {
		equivalents   []mutant.Equivalent
		want          []Mutant
		wantExplained int
		wantErr       string
	}{
		"survivors without entries stay": {want: []Mutant{always, never}},
		"an entry explains a survivor":   {equivalents: entry("a.go", 3), want: []Mutant{never}, wantExplained: 1},
		"an entry for another line is an error": {
			equivalents: entry("a.go", 4), want: []Mutant{always, never},
			wantErr: `a.go:4: no mutant in f survives "always a": correct the entry, or remove it`,
		},
		"an entry for another file is an error": {
			equivalents: entry("b.go", 3), want: []Mutant{always, never},
			wantErr: `b.go:3: no mutant in f survives "always a": correct the entry, or remove it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, explained, err := explain([]Mutant{always, never}, tc.equivalents)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected mutants (-want +got):\n%s", diff)
			}
			if explained != tc.wantExplained {
				t.Errorf("%d are explained, want %d", explained, tc.wantExplained)
			}
			if message := messageOf(err); message != tc.wantErr {
				t.Errorf("error %q, want %q", message, tc.wantErr)
			}
		})
	}
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
