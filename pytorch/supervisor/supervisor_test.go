package supervisor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/trainlog"
)

// launcher is the name under which the test program starts a process in each of several rounds, as torchrun does.
const launcher = "launch"

// folder has the supervisor and the launcher. They are installed before the tests start: while a test starts a process,
// another one cannot run a file that it has just written.
var folder string

// TestMain runs the test program as the supervisor or as the launcher if it was called under that name.
func TestMain(m *testing.M) {
	Main()
	if filepath.Base(os.Args[0]) == launcher {
		code, err := launch(os.Args[1])
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
	os.Exit(func() int {
		var err error
		if folder, err = os.MkdirTemp("", "supervisor"); err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(folder) }()
		// The init container can run again.
		err = errors.Join(Install(folder), Install(folder), os.Symlink(name, filepath.Join(folder, launcher)))
		if err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// launch runs a shell script as the process of rank 2, in three rounds, and returns the exit code of the last one. It
// notices the end of the process late, as torchrun does.
func launch(script string) (code int, err error) {
	for round := range 3 {
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = os.Stdout
		cmd.Env = append(os.Environ(),
			"RANK=2", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=1", "MASTER_ADDR=host", fmt.Sprint("MASTER_PORT=", round))
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			return 0, err
		}
		time.Sleep(500 * time.Millisecond)
		_ = cmd.Wait()
		code = cmd.ProcessState.ExitCode()
		fmt.Println("round", round, "has ended")
	}
	return code, nil
}

// supervised returns a command that runs a shell script under an installed supervisor.
func supervised(script string) *exec.Cmd {
	return exec.Command(filepath.Join(folder, name), "sh", "-c", script)
}

// startCommand starts the command, and returns the lines that it prints.
func startCommand(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(output)
}

func TestTheSupervisorPassesSignalsToTheCommand(t *testing.T) {
	t.Parallel()
	cmd := supervised(`trap 'echo torchrun reacted; exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
	cmd.Args = slices.Insert(cmd.Args, 1, "--pass-signals")
	lines := startCommand(t, cmd)
	for _, want := range []string{"ready", "torchrun reacted"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got the line %q, want %q", lines.Text(), want)
		}
		if want == "ready" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 5 {
		t.Errorf("got exit code %d, want the one of the command, 5", got)
	}
}

// The command starts a process whenever it reads a line, and each process is a round. A process runs for longer than
// the time between two searches for ranks, so the supervisor notices each round. If the supervisor also reported the
// first round, there would be two reports before the third round.
func TestTheSupervisorReportsThatTheTrainingStartsAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "reports")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := supervised("while echo ready; read line; do RANK=0 LOCAL_WORLD_SIZE=1 sleep 1; done")
	cmd.Args = slices.Insert(cmd.Args, 1, "--pass-signals")
	cmd.Env = append(os.Environ(), progress.EnvFile+"="+file)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for output := startCommand(t, cmd); output.Scan(); rounds++ {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(content), `{"starting": true}`) == 2 {
			_ = stdin.Close()
		} else if _, err := io.WriteString(stdin, "again\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if rounds < 3 {
		t.Errorf("two reports after %d rounds, want at least 3 rounds", rounds)
	}
}

func TestTheSupervisorExitsWithTheCodeOfTheCommand(t *testing.T) {
	t.Parallel()
	for title, tc := range map[string]struct {
		script string
		want   int
	}{
		"a success":                     {"exit 0", 0},
		"an exit code":                  {"exit 7", 7},
		"a signal":                      {"kill -9 $$", 137},
		"an end with processes left":    {"sleep 5 & exit 3", 3},
		"an end after an orphan's end":  {"sh -c 'sh -c \"exit 5\" &'; exit 4", 4},
		"a program that does not exist": {"exec /nowhere", 127},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			cmd := supervised(tc.script)
			_ = cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != tc.want {
				t.Errorf("got exit code %d, want %d", got, tc.want)
			}
		})
	}
	cmd := supervised("")
	cmd.Args[1] = "no-such-torchrun"
	output, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != 127 || !strings.Contains(string(output), "no-such-torchrun") {
		t.Errorf("got exit code %d and output %q, want 127 and the name of the program", got, output)
	}
}

func TestASignalEndsTheProcessesOfTheCommandButTheCommandCannotReactToIt(t *testing.T) {
	t.Parallel()
	// The command has two child processes, and each of these has a child itself. The two child processes and the command
	// would each print a line when they get the signal.
	cmd := supervised(`
		trap 'echo torchrun reacted' TERM HUP
		process='
			trap "echo a process saved its work; exit 0" TERM HUP
			sleep 1000 &
			echo ready
			while :; do wait; done'
		sh -c "$process" & sh -c "$process" &
		while :; do wait; done`)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := exec.Command(cmd.Path, cmd.Args[1:]...)
			output, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(output)
			for range 2 {
				if line, err := lines.ReadString('\n'); line != "ready\n" {
					t.Fatalf("got %q and error %v", line, err)
				}
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			// The output ends when all processes have ended.
			var rest bytes.Buffer
			if _, err := rest.ReadFrom(lines); err != nil {
				t.Fatal(err)
			}
			if want := strings.Repeat("a process saved its work\n", 2); rest.String() != want {
				t.Errorf("got output %q, want %q", rest.String(), want)
			}
			_ = cmd.Wait()
			if got, want := cmd.ProcessState.ExitCode(), 128+int(sig); got != want {
				t.Errorf("got exit code %d, want %d", got, want)
			}
		})
	}
}

// The command has a process that saves its work. If the command reacted to the signal or to the end of the process, it
// would print a line. The process sees the state of the command: T means stopped.
func TestTheSupervisorFreezesTheCommandUntilItsProcessesHaveEnded(t *testing.T) {
	t.Parallel()
	cmd := supervised(`
		trap 'echo torchrun reacted' TERM CHLD
		sh -c '
			state() { cut -d" " -f3 /proc/$PPID/stat; }
			save() { for i in 1 2 3; do echo "the command is $(state)"; done; echo saved; exit 143; }
			trap save TERM
			echo ready
			while :; do sleep 0.1; done' &
		while :; do wait; done`)
	var lines []string
	for scanner := startCommand(t, cmd); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if scanner.Text() == "ready" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	frozen := "the command is T"
	if diff := cmp.Diff([]string{"ready", frozen, frozen, frozen, "saved"}, lines); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	if got, want := cmd.ProcessState.ExitCode(), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("got exit code %d, want %d", got, want)
	}
}

// Python's resource tracker ignores signals, and ends once its parent has ended.
func TestTheSupervisorDoesNotWaitForAResourceTracker(t *testing.T) {
	t.Parallel()
	cmd := supervised(`
		sh -c 'trap "" TERM; parent=$PPID; echo ready; while kill -0 $parent 2>/dev/null; do sleep 0.1; done' \
			multiprocessing.resource_tracker &
		while :; do wait; done`)
	if lines := startCommand(t, cmd); !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("got the line %q, want ready", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got, want := cmd.ProcessState.ExitCode(), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("got exit code %d, want %d", got, want)
	}
}

// budgeted returns a command that runs a shell script as the process of a launcher. The supervisor of the launcher has
// a budget of one restart in place.
func budgeted(script string) *exec.Cmd {
	b := Budget{Restarts: 1, ID: "uid-0", Replica: "job-worker-0", Leader: "localhost:0", IsLeader: true}
	args := slices.Concat(Options{Budget: &b}.Command()[1:], []string{filepath.Join(folder, launcher), script})
	return exec.Command(filepath.Join(folder, name), args...)
}

func TestTheSupervisorEndsTheCommandWhenTheBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	cmd := budgeted("sleep 0.2; exit 7")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, _ := cmd.Output()
	if got, want := string(output), "round 0 has ended\n"; got != want {
		t.Errorf("got the output %q, want %q", got, want)
	}
	want := `supervise: rank 2 on job-worker-0 ended with exit code 7: restart in place 1 of 1 (maxRestarts)
supervise: rank 2 on job-worker-0 ended with exit code 7: all restarts in place are used up (maxRestarts: 1)
supervise: ending torchrun: all restarts in place are used up (maxRestarts: 1)
supervise: rank 2 failed first on this worker: exit code 7
`
	if diff := cmp.Diff(want, stderr.String()); diff != "" {
		t.Errorf("unexpected log (-want +got):\n%s", diff)
	}
	if got := cmd.ProcessState.ExitCode(); got != 1 {
		t.Errorf("got exit code %d, want 1, as of torchrun", got)
	}
}

// The launcher goes on after a failure, as a torchrun does that counts the restarts itself.
func TestTheSupervisorOfATorchrunThatEndsByItselfPrintsWhetherItsFailureWasTheFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, want string }{
		"the last process has failed": {"sleep 1.5; exit 7", "supervise: " + trainlog.FirstReport + "\n"},
		"no process has failed":       {"sleep 1.5", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := budgeted(tc.script)
			cmd.Args = slices.Insert(cmd.Args, 1, "--"+flagOnlyOrder)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			output, _ := cmd.Output()
			want := "round 0 has ended\nround 1 has ended\nround 2 has ended\n"
			if diff := cmp.Diff([]string{want, tc.want}, []string{string(output), stderr.String()}); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
		})
	}
}

// The first process of a namespace has the ID 1. If user namespaces are forbidden, the test program cannot start it.
func TestTheCommandHasTheSameProcessIDInEachPod(t *testing.T) {
	t.Parallel()
	for range 3 {
		cmd := supervised("echo $$; exec sleep 0")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		output, err := cmd.Output()
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOSPC) {
			t.Skip("user namespaces are forbidden")
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.TrimSpace(string(output)), strconv.Itoa(torchrunID); got != want {
			t.Errorf("got the process ID %s, want %s", got, want)
		}
	}
}

// A process that ignores SIGTERM would keep the pod, since nobody deletes it.
func TestAfterAFailureTheSupervisorWaitsOnlyForTheProcessesOfTheCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "left")
	cmd := budgeted(`sh -c 'trap "" TERM; while :; do sleep 1; done' & echo $! >> ` + file + `; sleep 0.2; exit 7`)
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 1 {
		t.Errorf("got exit code %d, want 1", got)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for left := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(left)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestWithABudgetTheProcessesStillSaveTheirWork(t *testing.T) {
	t.Parallel()
	cmd := budgeted(`trap "echo saved; exit 5" TERM; echo ready; while :; do sleep 0.1; done`)
	var lines []string
	for scanner := startCommand(t, cmd); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if scanner.Text() == "ready" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if diff := cmp.Diff([]string{"ready", "saved"}, lines); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	if got, want := cmd.ProcessState.ExitCode(), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("got exit code %d, want %d", got, want)
	}
}

func TestTheCommandOfASupervisorHasItsOptions(t *testing.T) {
	t.Parallel()
	b := Budget{Restarts: 3, ID: "uid-0", Replica: "job-worker-1", Leader: "job-worker-0:29498"}
	leading, ordering := b, b
	leading.IsLeader, ordering.OnlyOrder = true, true
	for name, want := range map[string]Options{
		"no options":             {},
		"the backend static":     {PassesSignals: true},
		"the budget of a job":    {Budget: &b},
		"the budget of a leader": {Budget: &leading},
		"only the order":         {Budget: &ordering},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := []string{"torchrun", "--restarts=7"}
			got, rest, err := parse(append(want.Command()[1:], command...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{want, command}, []any{got, rest}); diff != "" {
				t.Errorf("unexpected options (-want +got):\n%s", diff)
			}
		})
	}
	for want, args := range map[string][]string{
		"the command to run is missing": {"--pass-signals"},
		"flag provided but not defined": {"--other", "torchrun"},
		"--leader: ":                    {"--restarts=1", "--id=uid", "--replica=worker-1", "--leader=host", "torchrun"},
		"--restarts needs --id":         {"--restarts=1", "--leader=host:1", "torchrun"},
	} {
		if _, _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got the error %v, want one with %q", args, err, want)
		}
	}
}
