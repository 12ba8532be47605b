package ranks

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// process is a shell that waits for a line of input and then runs a script.
type process struct {
	*exec.Cmd

	in  io.WriteCloser
	out *bufio.Scanner
}

// start starts a process in the given process group, or in a new one if the parameter group is 0.
func start(t *testing.T, group int, script string, environment ...string) process {
	t.Helper()
	p := process{Cmd: exec.Command("/bin/sh", "-c", "read line; "+script)}
	p.Env = environment
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	in, errIn := p.StdinPipe()
	out, errOut := p.StdoutPipe()
	if err := errors.Join(errIn, errOut, p.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = p.Wait()
	})
	p.in, p.out = in, bufio.NewScanner(out)
	return p
}

// proceed sends a line of input to the process.
func (p process) proceed(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		t.Fatal(err)
	}
}

// expect compares the next events with the expected ones, which start or end in any order.
func expect(t *testing.T, next func() (Event, bool), want ...Event) {
	t.Helper()
	var got []Event
	for range want {
		e, ok := next()
		if !ok {
			t.Fatalf("no event after %+v", got)
		}
		got = append(got, e)
	}
	slices.SortFunc(got, func(a, b Event) int { return cmp.Compare(a.Rank, b.Rank) })
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("unexpected events (-want +got):\n%s", diff)
	}
}

func started(rank, round int, variables map[string]string) Event {
	return Event{Rank: rank, Round: round, Variables: variables}
}

func ended(rank, round, code int) Event {
	return Event{Rank: rank, Round: round, Ended: true, Code: &code}
}

func TestTheEndOfARankHasItsExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		end    syscall.Signal // 0 lets the rank run its script
		code   int
	}{
		"the code of a rank that succeeds is 0":                 {script: "exit 0", code: 0},
		"the code of a rank that fails is its exit code":        {script: "exit 3", code: 3},
		"the code of a rank that is killed is -9":               {end: syscall.SIGKILL, code: -9},
		"the code of a rank that a signal ends is negative too": {end: syscall.SIGSEGV, code: -11},
	} {
		for kernel, open := range map[string]func(int) (int, error){
			"with pidfds":    pidfdOpen,
			"without pidfds": func(int) (int, error) { return -1, syscall.ENOSYS },
		} {
			t.Run(name+" "+kernel, func(t *testing.T) {
				group := start(t, 0, "", "RANK=2").Process.Pid
				victim := start(t, group, tc.script, "RANK=3")
				next, stop := iter.Pull(Watcher{Among: InGroup(group), Size: 2}.events(nil, open))
				defer stop()
				expect(t, next, started(2, 0, map[string]string{"RANK": "2"}), started(3, 0, map[string]string{"RANK": "3"}))
				if tc.end == 0 {
					victim.proceed(t)
				} else if err := victim.Process.Signal(tc.end); err != nil {
					t.Fatal(err)
				}
				expect(t, next, ended(3, 0, tc.code))
			})
		}
	}
}

// Launchers reap their ranks. The test is the launcher here.
func TestTheCodeOfARankThatItsParentReapsIsUnknown(t *testing.T) {
	rank := start(t, 0, "exit 3", "RANK=2")
	next, stop := iter.Pull(Watcher{Among: InGroup(rank.Process.Pid), Size: 1}.Events(nil))
	defer stop()
	expect(t, next, started(2, 0, map[string]string{"RANK": "2"}))
	rank.proceed(t)
	_ = rank.Wait()
	expect(t, next, Event{Rank: 2, Ended: true})
}

// A round begins when all ranks of the last one have ended. The ranks of torch 1.13 are in the process group of
// torchrun, and those of torch 2.6 have groups of their own. The test is torchrun here.
func TestTheRanksOfTorchrunAreItsChildren(t *testing.T) {
	variables := func(rank string) map[string]string {
		return map[string]string{"RANK": rank, "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1234"}
	}
	environment := func(rank string) []string {
		return []string{"RANK=" + rank, "LOCAL_WORLD_SIZE=2", "MASTER_PORT=1234", "OTHER=1"}
	}
	for name, group := range map[string]int{
		"the ranks are found in the group of torchrun": syscall.Getpgrp(), "the ranks are found in groups of their own": 0,
	} {
		t.Run(name, func(t *testing.T) {
			watcher := Watcher{Among: ChildOf(os.Getpid()), Variables: []string{"MASTER_PORT", "MASTER_ADDR"}}
			next, stop := iter.Pull(watcher.Events(nil))
			defer stop()
			start(t, group, "") // not a rank
			for round := range 2 {
				first := start(t, group, "exit 1", environment("4")...)
				expect(t, next, started(4, round, variables("4")))
				second := start(t, group, "exit 2", environment("5")...)
				expect(t, next, started(5, round, variables("5")))
				second.proceed(t)
				expect(t, next, ended(5, round, 2))
				first.proceed(t)
				expect(t, next, ended(4, round, 1))
			}
		})
	}
}

func TestAProcessThatInheritsItsVariablesIsNotARank(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		among  func(pid int) func(Process) bool
		want   map[string]string
	}{
		"a process that a rank starts is not a rank": {
			script: "sh -c 'echo ready; read line'; exit", among: InGroup, want: map[string]string{"RANK": "0"},
		},
		"a rank is found if torchrun has the same RANK": {
			script: "exec 3<&0; sh -c 'read line' <&3 & LOCAL_WORLD_SIZE=1 sh -c 'echo ready; read line; exit'; exit",
			among:  ChildOf, want: map[string]string{"RANK": "0", "LOCAL_WORLD_SIZE": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, 0, tc.script, "RANK=0")
			p.proceed(t)
			if !p.out.Scan() {
				t.Fatal("the process has ended")
			}
			var got []map[string]string
			for _, r := range (&watch{Watcher: Watcher{Among: tc.among(p.Process.Pid)}}).search() {
				got = append(got, r.variables)
			}
			if diff := gocmp.Diff([]map[string]string{tc.want}, got); diff != "" {
				t.Errorf("unexpected variables of ranks (-want +got):\n%s", diff)
			}
		})
	}
}

// A search during the training would slow it down, since a pod can have many processes. The rank runs for longer than
// the interval between two searches.
func TestNoSearchTakesPlaceWhileAllRanksRun(t *testing.T) {
	rank := start(t, 0, "sleep 1; exit 1", "RANK=2")
	searched := 0
	watcher := Watcher{Size: 1, Among: func(p Process) bool {
		if p.ID == rank.Process.Pid {
			searched++
		}
		return p.ID == rank.Process.Pid
	}}
	next, stop := iter.Pull(watcher.Events(nil))
	defer stop()
	expect(t, next, started(2, 0, map[string]string{"RANK": "2"}))
	rank.proceed(t)
	expect(t, next, ended(2, 0, 1))
	if searched != 1 {
		t.Errorf("got %d searches, want 1", searched)
	}
}

func TestEventsEndWhileARankRuns(t *testing.T) {
	rank := start(t, 0, "", "RANK=2")
	done := make(chan struct{})
	for e := range (Watcher{Among: InGroup(rank.Process.Pid), Size: 1}).Events(done) {
		if e.Ended {
			t.Errorf("unexpected end of rank %d", e.Rank)
		}
		time.AfterFunc(10*time.Millisecond, func() { close(done) }) // probably while Events waits
	}
}
