package agent

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/common/trainlog"
)

// rank starts a process with the given rank. The process waits for a line of input and then runs the script. The
// process is in the given process group, or in a new one if the parameter group is 0.
func rank(t *testing.T, group, rank int, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "read line; "+script)
	cmd.Env = []string{fmt.Sprintf("RANK=%d", rank)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd
}

func TestRanksReportTheRankThatFailedFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		end  syscall.Signal
		want string
	}{
		"a rank that was killed is reported":     {end: syscall.SIGKILL, want: trainlog.RankReport(3, -9)},
		"a rank that a signal ended is reported": {end: syscall.SIGSEGV, want: trainlog.RankReport(3, -11)},
	} {
		t.Run(name, func(t *testing.T) {
			first := rank(t, 0, 2, "exit 1")
			group := first.Process.Pid
			victim := rank(t, group, 3, "exit 1")
			r := &ranks{group: group, slots: 2, found: map[int]int{}}
			r.search()
			if diff := cmp.Diff(map[int]int{group: 2, victim.Process.Pid: 3}, r.found); diff != "" {
				t.Fatalf("unexpected ranks by process ID (-want +got):\n%s", diff)
			}
			r.look()
			if r.first != "" {
				t.Fatalf("got a report before any rank has ended: %s", r.first)
			}
			if err := victim.Process.Signal(tc.end); err != nil {
				t.Fatal(err)
			}
			r.watch(t.Context().Done())
			if diff := cmp.Diff(tc.want, r.first); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
		})
	}
}

// A rank can fail before it is found, and DeepSpeed's launcher then stops the other ranks with SIGTERM. So the report
// must not be about a rank that SIGTERM ended while another rank has not been found.
func TestStoppedRankIsNotTheFirstIfAnotherIsUnknown(t *testing.T) {
	for slots, want := range map[int]string{1: trainlog.RankReport(2, -15), 2: ""} {
		stopped := rank(t, 0, 2, "exit 1")
		r := &ranks{group: stopped.Process.Pid, slots: slots, found: map[int]int{}}
		t.Cleanup(r.close)
		r.search()
		if err := stopped.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.awaitEnd(time.Hour)
		r.look()
		if diff := cmp.Diff(want, r.first); diff != "" {
			t.Errorf("unexpected report about one of %d ranks (-want +got):\n%s", slots, diff)
		}
	}
}

// DeepSpeed's launcher can reap a rank soon after its end. After that, nothing shows the exit code of the rank. So
// the ranks must be checked as soon as one of them ends.
func TestRanksAreCheckedWhenOneEnds(t *testing.T) {
	victim := rank(t, 0, 2, "exit 1")
	r := &ranks{group: victim.Process.Pid, slots: 1, found: map[int]int{}}
	t.Cleanup(r.close)
	r.search()
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for r.first == "" {
		r.awaitEnd(time.Hour)
		r.look()
	}
	if diff := cmp.Diff(trainlog.RankReport(2, -9), r.first); diff != "" {
		t.Errorf("unexpected report (-want +got):\n%s", diff)
	}
}

func TestParseStat(t *testing.T) {
	const zombie = ") Z 7 5 5 0 -1 4228172 110 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 18446744073709551615 0 0 0 0 0 0 0 " +
		"16781312 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 "
	for name, tc := range map[string]struct {
		stat string
		want process
		ok   bool
	}{
		"the state of a zombie is parsed": {
			stat: "9 (python3" + zombie + "9\n", want: process{parent: 7, group: 5, state: "Z", exit: 9}, ok: true,
		},
		"the program name can contain parentheses": {
			stat: "9 (a) R 1 1 (b" + zombie + "768\n",
			want: process{parent: 7, group: 5, state: "Z", exit: 768}, ok: true,
		},
		"a truncated line is refused":       {stat: "9 (python3) Z 7 5"},
		"an empty line is refused":          {},
		"an invalid exit status is refused": {stat: "9 (python3" + zombie + "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseStat(tc.stat)
			if ok != tc.ok || got != tc.want {
				t.Errorf("got %+v, %t, want %+v, %t", got, ok, tc.want, tc.ok)
			}
		})
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
