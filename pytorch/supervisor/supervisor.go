// Package supervisor is the first process in the pods of replicas that run torchrun. It ends torchrun in such a way
// that the training processes have the whole grace period of the pod, and that the other replicas can train on. It also
// reports when torchrun starts the training again.
//
// Alone, torchrun passes SIGTERM to its processes, and kills them 30 s later. In the versions 2.3 to 2.7 of torch, it
// also closes the rendezvous, so that the other replicas cannot continue without the one that leaves. The supervisor
// freezes torchrun with SIGSTOP instead, passes the signal to the processes, and kills torchrun after their end. So
// only the end of the grace period ends a process that saves its work. A frozen torchrun does not see that its
// processes end, so it does not start them again. The torchrun of the leader has the store of the rendezvous. While it
// is frozen, the others wait for the store. If it ended, they would soon end their processes. This was tried with torch
// 1.13 and 2.6, for 5 minutes.
//
// With the rendezvous backend static, the processes themselves need the store of the leader's torchrun. Then the
// supervisor passes signals to torchrun.
//
// torchrun starts all training processes again when one of them fails or when the replicas change. If the pod has a
// receiver of progress, the supervisor reports each such start, so that the time in which the program loads its data
// and its model again is not taken for a stall.
package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"tensorstack.dev/jobs/common/helper"
	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/ranks"
)

const (
	// Folder is the folder of the supervisor in the pods of replicas.
	Folder = "/t9k/supervisor"
	// PassSignals is the first argument of a supervisor that passes signals to torchrun.
	PassSignals = "--pass-signals"
	// name is the file name of the program when it runs as the supervisor.
	name = "supervise"
)

// Program is the path of the supervisor in the pods of replicas. Its arguments are PassSignals, if needed, and the
// command that the supervisor runs.
var Program = path.Join(Folder, name)

// Main runs the supervisor and ends the process, if the program was called as the supervisor. Otherwise, it returns.
func Main() {
	if filepath.Base(os.Args[0]) == name {
		os.Exit(supervise(os.Args[1:]))
	}
}

// Install copies the supervisor into the folder.
func Install(folder string) error {
	if err := helper.Install(filepath.Join(folder, name)); err != nil {
		return fmt.Errorf("installing the supervisor of torchrun: %w: the folder must be a volume that the user of the "+
			"init container can write to", err)
	}
	return nil
}

// lookInterval is the interval between two checks whether processes of a frozen torchrun run.
const lookInterval = 100 * time.Millisecond

// supervise runs the command and returns its exit code. If the first argument is PassSignals, the supervisor passes
// the signals that end torchrun to the command. Otherwise, the first such signal freezes the command and goes to its
// processes. Once these have ended, the supervisor kills the command. It passes the signal to processes that are left,
// and waits for their end. The result is then 128 plus the number of the signal.
func supervise(command []string) int {
	passesSignals := len(command) > 0 && command[0] == PassSignals
	if passesSignals {
		command = command[1:]
	}
	// Processes whose parent ends become children of the supervisor, even if it is not the first process of the pod.
	err := becomeSubreaper()
	if err != nil {
		return fail(helper.ExitCannotRun, os.NewSyscallError("prctl", err))
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if len(command) == 0 {
		return fail(helper.ExitCannotRun, errors.New("the command to run is missing"))
	}
	file, err := exec.LookPath(command[0])
	if err != nil {
		return fail(helper.ExitNotFound, err)
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	torchrun, err := os.StartProcess(file, command, &os.ProcAttr{Files: files}) //nolint:gosec // the command of the job
	if err != nil {
		return fail(helper.ExitCannotRun, err)
	}
	defer func() { _ = torchrun.Release() }()

	ended := make(chan exit)
	go reap(ended)
	var received syscall.Signal // 0 until the supervisor gets a signal
	var frozen <-chan time.Time // ticks while torchrun is frozen
	passed := map[int]bool{}    // the processes that have got the signal
	if os.Getenv(progress.EnvFile) != "" {
		go reportRounds(torchrun.Pid)
	}
	for {
		select {
		case sig := <-signals:
			switch {
			case passesSignals:
				_ = torchrun.Signal(sig)
			case received == 0:
				received, _ = sig.(syscall.Signal)
				_ = torchrun.Signal(syscall.SIGSTOP)
				frozen = time.Tick(lookInterval)
			}
		case <-frozen:
			if !pass(received, torchrun.Pid, passed) {
				frozen = nil
				_ = torchrun.Kill()
			}
		case e, more := <-ended:
			killed := received != 0 && e.status.Signaled() && e.status.Signal() == syscall.SIGKILL
			if !more {
				return helper.ExitSignal + int(received)
			}
			if e.pid == torchrun.Pid && !killed {
				return helper.ExitCode(e.status)
			}
			delete(passed, e.pid)
			if received != 0 {
				pass(received, os.Getpid(), passed)
			}
		}
	}
}

// reportRounds reports each round of the training except the first. It does not return.
func reportRounds(torchrun int) {
	last := 0
	training := ranks.Watcher{Among: ranks.ChildOf(torchrun)}
	for e := range training.Events(nil) {
		if e.Round == last {
			continue
		}
		last = e.Round
		if err := progress.ReportStart(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		}
	}
}

func fail(code int, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return code
}

// exit is the end of a process.
type exit struct {
	pid    int
	status syscall.WaitStatus
}

// reap reports the end of each child. It closes the channel when there are no children.
func reap(ended chan<- exit) {
	for {
		var e exit
		var err error
		switch e.pid, err = syscall.Wait4(-1, &e.status, 0, nil); {
		case err == nil:
			ended <- e
		case !errors.Is(err, syscall.EINTR):
			close(ended)
			return
		}
	}
}

// pass sends the signal to each child of a process that has not got it. It reports whether children run that end by
// themselves.
func pass(sig syscall.Signal, parent int, passed map[int]bool) (areRunning bool) {
	for _, p := range ranks.Processes(ranks.ChildOf(parent)) {
		if !passed[p.ID] {
			passed[p.ID] = true
			_ = syscall.Kill(p.ID, sig)
		}
		areRunning = areRunning || !p.IsZombie() && !isResourceTracker(p.ID)
	}
	return areRunning
}

// isResourceTracker reports whether a process is the resource tracker of Python's multiprocessing, which ends only
// after its parent. torchrun has one if it runs the program with --run_path.
func isResourceTracker(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.Contains(line, []byte("multiprocessing.resource_tracker"))
}
