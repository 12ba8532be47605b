package mutation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const document = "../../docs/contribute/reliability.md"

func TestDocumentHasTheRecordedScore(t *testing.T) {
	t.Parallel()
	record, err := ReadRecord("record.yaml")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want, err := record.InDocument(string(content))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("%s does not have the score of record.yaml (-want +got):\n%s", document, diff)
	}
}

func TestInDocument(t *testing.T) {
	t.Parallel()
	record := Record{Packages: []Package{
		{Path: "a", Score: Score{Mutants: 10, Killed: 8, Explained: 1, Left: map[string]int{"a/b.go": 1}}},
		{Path: "b", Behind: "c", Score: Score{
			Mutants: 3, Killed: 2, Left: map[string]int{"b/b.go": 1}, KilledBehind: new(1),
		}},
	}}
	got, err := record.InDocument("Before.\n\n" + tableHead + "| `a` | 9 |\n| `c` | 9 |\n\nAfter.\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "Before.\n\n" + tableHead +
		"| `a` | 10 | 8 | 1 | 1 | - | 88.8 % |\n| `b` | 3 | 2 | 0 | 1 | 1 | 66.6 % |\n\nAfter.\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected document (-want +got):\n%s", diff)
	}
	if _, err := record.InDocument("Nothing."); err == nil {
		t.Error("a document without the table must be an error")
	}
}

func TestReadRecordReturnsTheWrittenRecord(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "record.yaml")
	record := Record{Packages: []Package{{
		Path: "a", Files: []string{"b.go"}, Behind: "c",
		Score: Score{Mutants: 10, Killed: 8, Explained: 1, Left: map[string]int{"a/b.go": 1}, KilledBehind: new(1)},
	}}}
	if err := record.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record, got); diff != "" {
		t.Errorf("unexpected record (-want +got):\n%s", diff)
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		score Score
		want  float64
	}{
		"a package that was never tested has 0":      {},
		"explained mutants do not count":             {score: Score{Mutants: 10, Killed: 9, Explained: 1}, want: 100},
		"a package with only explained ones has 100": {score: Score{Mutants: 1, Explained: 1}, want: 100},
		"the percentage is rounded down":             {score: Score{Mutants: 3000, Killed: 2999}, want: 99.9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.score.Percent(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
