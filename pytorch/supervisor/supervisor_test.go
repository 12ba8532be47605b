package supervisor

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/common/progress"
)

// TestMain runs the test program as the supervisor if it was called under the name of the supervisor.
func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// supervised returns a command that runs a shell script under an installed supervisor.
func supervised(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	folder := t.TempDir()
	for range 2 { // the init container can run again
		if err := Install(folder); err != nil {
			t.Fatal(err)
		}
	}
	return exec.Command(filepath.Join(folder, name), "sh", "-c", script)
}

// start starts the command, and returns the lines that it prints.
func start(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
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
	cmd := supervised(t, `trap 'echo torchrun reacted; exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
	cmd.Args = slices.Insert(cmd.Args, 1, PassSignals)
	lines := start(t, cmd)
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
	cmd := supervised(t, "while echo ready; read line; do RANK=0 LOCAL_WORLD_SIZE=1 sleep 1; done")
	cmd.Args = slices.Insert(cmd.Args, 1, PassSignals)
	cmd.Env = append(os.Environ(), progress.EnvFile+"="+file)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for output := start(t, cmd); output.Scan(); rounds++ {
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
			cmd := supervised(t, tc.script)
			_ = cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != tc.want {
				t.Errorf("got exit code %d, want %d", got, tc.want)
			}
		})
	}
	cmd := supervised(t, "")
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
	cmd := supervised(t, `
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
	cmd := supervised(t, `
		trap 'echo torchrun reacted' TERM CHLD
		sh -c '
			state() { cut -d" " -f3 /proc/$PPID/stat; }
			save() { for i in 1 2 3; do echo "the command is $(state)"; done; echo saved; exit 143; }
			trap save TERM
			echo ready
			while :; do sleep 0.1; done' &
		while :; do wait; done`)
	var lines []string
	for scanner := start(t, cmd); scanner.Scan(); {
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
	cmd := supervised(t, `
		sh -c 'trap "" TERM; parent=$PPID; echo ready; while kill -0 $parent 2>/dev/null; do sleep 0.1; done' \
			multiprocessing.resource_tracker &
		while :; do wait; done`)
	if lines := start(t, cmd); !lines.Scan() || lines.Text() != "ready" {
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
