package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	t.Parallel()
	got := report{"writes-per-job": 9.25, "resync-writes": 0, "jobs-time": 123.4, "growth": 1}.table()
	want := "| figure | | bar | measured |\n|---|---|---|---|\n" +
		"| `jobs-time` | 1,000 jobs of 4 replicas, from the first creation to the last success |  | 123 s |\n" +
		"| `writes-per-job` | writes of the controller for a job of 4 replicas, without events | ≤ 9 | " +
		"9.25 writes **not met** |\n" +
		"| `resync-writes` | writes after both controllers restart and reconcile all objects | ≤ 0 | 0 writes |\n" +
		"| `growth` | time of 10,000 jobs, relative to 10 times the time of 1,000 jobs, 200 at a time | ≤ 1.1 | 1 ratio |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected table (-want +got):\n%s", diff)
	}
}

// A run never fails because of a time, because times depend on the machine. It fails if the number of writes, which
// does not depend on the machine, is above its bar.
func TestOnlyExactFiguresFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report report
		want   []string
	}{
		"exact figures that meet their bars do not fail": {report: report{"writes-per-job": 9, "idle-writes": 0}},
		"a ratio of times above its bar does not fail":   {report: report{"jobs-to-floor": 2}},
		"too many writes fail": {
			report: report{"writes-per-job": 9.5}, want: []string{"bench: writes-per-job 9.5 writes is above the bar of 9"},
		},
		"one write fails if the bar is zero": {
			report: report{"idle-writes": 1}, want: []string{"bench: idle-writes 1 writes is above the bar of 0"},
		},
		"a job that Kueue admits fails if it costs too many writes": {
			report: report{"kueue-admission-writes": 4, "kueue-restart-writes": 2.25, "kueue-idle-writes": 1},
			want: []string{
				"bench: kueue-idle-writes 1 writes is above the bar of 0",
				"bench: kueue-restart-writes 2.25 writes is above the bar of 2",
			},
		},
		"figures that were not measured do not fail": {report: report{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.report.failed()); diff != "" {
				t.Errorf("unexpected failures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("the median of three values is %v, want 2", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("the median of four values is %v, want 2.5", got)
	}
}

func TestResultsAreWrittenIntoADocument(t *testing.T) {
	t.Parallel()
	document := filepath.Join(t.TempDir(), "document.md")
	if err := os.WriteFile(document, []byte("before\n"+beginResults+"old\n"+endResults+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeInto(document, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("before\n"+beginResults+"\nnew\n\n"+endResults+"after\n", string(got)); diff != "" {
		t.Errorf("unexpected document (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(document, []byte("no place\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeInto(document, "new\n"); err == nil {
		t.Error("results are written into a document without the lines around them")
	}
}

// The document that `make bench` changes must have the lines beginResults and endResults. Otherwise writeInto returns
// an error.
func TestDocumentHasAPlaceForResults(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/contribute/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(document, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeInto(document, report{}.table()); err != nil {
		t.Error(err)
	}
}
