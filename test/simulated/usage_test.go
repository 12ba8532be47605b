package simulated

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseUsage(t *testing.T) {
	t.Parallel()
	// The name of a program can contain spaces and parentheses.
	got, err := parseUsage(
		"4711 (a) program) S 1 4711 4711 0 -1 4194560 9 0 0 0 250 50 7 7 20 0 11 0 99 1000 200 18446744073709551615",
		"Name:\ta) program\nVmPeak:\t 9000 kB\nVmHWM:\t 3 kB\nVmRSS:\t 2 kB\nThreads:\t11\n",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := Usage{CPU: 3 * time.Second, Resident: 2048, PeakResident: 3072}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected usage (-want +got):\n%s", diff)
	}
}
