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
		"| `jobs-time` | 1,000 jobs of 4 replicas, from the first create to all Succeeded |  | 123 s |\n" +
		"| `writes-per-job` | writes of the controller for a job of 4 replicas, without events | ≤ 9 | 9.25 writes **not met** |\n" +
		"| `resync-writes` | writes after both are restarted, so that they look at all anew | ≤ 0 | 0 writes |\n" +
		"| `growth` | time of 10,000 jobs, to 10 times that of 1,000, 200 at a time | ≤ 1.1 | 1 ratio |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected table (-want +got):\n%s", diff)
	}
}

// Speed is another on each machine, so it fails no run; writes are not.
func TestOnlyExactFiguresFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report report
		want   []string
	}{
		"all bars are met": {report: report{"writes-per-job": 9, "idle-writes": 0}},
		"a ratio of times": {report: report{"jobs-to-floor": 2}},
		"too many writes": {
			report: report{"writes-per-job": 9.5}, want: []string{"bench: writes-per-job 9.5 writes, and the bar is 9"},
		},
		"a write where none may be": {
			report: report{"idle-writes": 1}, want: []string{"bench: idle-writes 1 writes, and the bar is 0"},
		},
		"nothing was measured of it": {report: report{}},
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
		t.Errorf("the median of three is %v", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("the median of four is %v", got)
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
		t.Error("results are written into a document that has no place for them")
	}
}

// The document that the command names is the one that is there.
func TestDocumentHasAPlaceForResults(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/performance.md")
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
