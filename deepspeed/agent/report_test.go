package agent

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Reports arrive whatever the output of a host is, even if some other process of the container sends lines that are no
// reports.
func TestReportsArriveWhateverTheOutputIs(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	reports, err := openReports(func() {}, &printed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openReporter(reports.socket, "worker-1.digits")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(r.conn, "no report\n{\"Host\":\n")
	for range 2 {
		<-r.answered
	}
	output, tail := bytes.Repeat([]byte{0xff}, 3*lateLimit/2), strings.Repeat("\x00", tailLimit)
	_, _ = r.late().Write(slices.Concat([]byte("\"\n"), output))
	r.end(3, true, tail)
	want := nodes{
		hosts: []string{"worker-1.digits"}, open: []string{},
		failures: []nodeReport{{Host: "worker-1.digits", Ended: true, Code: 3, IsLost: true, Tail: tail}},
	}
	if diff := cmp.Diff(want, reports.now(), cmp.AllowUnexported(nodes{})); diff != "" {
		t.Errorf("unexpected state of the node commands (-want +got):\n%s", diff)
	}
	if !reports.close(time.Minute) {
		t.Error("a client has not ended")
	}
	text := "worker-1: \"\nworker-1: " + string(output[:lateLimit]) + "\nworker-1: " + string(output[lateLimit:]) + "\n"
	if diff := cmp.Diff(text, printed.String()); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
}

// A worker whose ranks only lost their peers is not the root cause, even if it reports its failure first.
func TestRootCauseIsNotAWorkerThatLostItsPeers(t *testing.T) {
	t.Parallel()
	const lost = "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:1"
	n := nodes{failures: []nodeReport{
		{Host: "worker-0", Ended: true, Code: 1, Tail: lost},
		{Host: "worker-1", Ended: true, Code: 1, Tail: "the data has no labels"},
		{Host: "worker-2", Ended: true, Code: 1, Tail: lost},
	}}
	if got := n.cause().Host; got != "worker-1" {
		t.Errorf("the root cause is on %q, want worker-1", got)
	}
}
