package mutation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarksOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source  string
		want    []mark
		wantErr string
	}{
		"a comment with a space is not a mark": {source: "// equivalent: a\nb()"},
		"a mark applies to the next line of code": {
			source: "\n\t//equivalent:always a => it is\n\tif a {", want: []mark{{"a.go", 2, 3, "always a"}},
		},
		"several marks can apply to the same line": {
			source: "//equivalent:always a => it is\n//equivalent:never a => it is not\n// a\nif a {",
			want:   []mark{{"a.go", 1, 4, "always a"}, {"a.go", 2, 4, "never a"}},
		},
		"a mark without a reason is an error": {
			source:  "//equivalent:always a =>\na",
			wantErr: "a.go:1: a mark must have the form //equivalent:change => reason",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := marksOf("a.go", tc.source)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(mark{})); diff != "" {
				t.Errorf("unexpected marks (-want +got):\n%s", diff)
			}
			if message := messageOf(err); message != tc.wantErr {
				t.Errorf("error %q, want %q", message, tc.wantErr)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	always, never := Mutant{1, "a.go", 3, "always a"}, Mutant{2, "a.go", 3, "never a"}
	for name, tc := range map[string]struct {
		marks         []mark
		want          []Mutant
		wantExplained int
		wantErr       string
	}{
		"survivors without marks stay": {want: []Mutant{always, never}},
		"a mark explains a survivor":   {marks: []mark{{"a.go", 2, 3, "always a"}}, want: []Mutant{never}, wantExplained: 1},
		"a mark of another line is an error": {
			marks: []mark{{"a.go", 3, 4, "always a"}}, want: []Mutant{always, never},
			wantErr: `a.go:3: no mutant of line 4 survives "always a": remove the mark, or correct it`,
		},
		"a mark of another file is an error": {
			marks: []mark{{"b.go", 2, 3, "always a"}}, want: []Mutant{always, never},
			wantErr: `b.go:2: no mutant of line 3 survives "always a": remove the mark, or correct it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, explained, err := explain([]Mutant{always, never}, tc.marks)
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
