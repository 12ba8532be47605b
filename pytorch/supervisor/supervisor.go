// Package supervisor runs torchrun in the pods of replicas. It ends torchrun in such a way that the other replicas
// train on, and reports when torchrun starts the training again.
//
// The versions 2.3 to 2.7 of torch close the rendezvous when torchrun gets SIGTERM, for example because the job is
// scaled down or the node is drained. Then the other replicas cannot continue without the one that leaves. Earlier
// versions leave the rendezvous open, and the replicas that stay notice the end of a connection. The supervisor
// leaves the rendezvous open with every version: it kills torchrun, and passes the signal to the training processes,
// which can use the rest of the grace period. Where no replica can train on, the supervisor passes signals to
// torchrun instead.
//
// torchrun starts all training processes again when one of them fails or when the replicas change. If the pod has a
// receiver of progress, the supervisor reports each such start, so that the time in which the program loads its data
// and its model again is not taken for a stall.
package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"

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

// supervise runs the command and returns its exit code. If the first argument is PassSignals, the supervisor passes
// the signals that end torchrun to the command. Otherwise, after the first such signal, it kills the command, passes
// the signal to the training processes, and waits for their end. The result is then 128 plus the number of the
// signal.
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
				pass(received, passed)
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

// pass sends the signal to each child that has not got it. Once torchrun has ended, its processes are children of the
// supervisor.
func pass(sig syscall.Signal, passed map[int]bool) {
	for _, p := range ranks.Processes(ranks.ChildOf(os.Getpid())) {
		if !passed[p.ID] {
			passed[p.ID] = true
			_ = syscall.Kill(p.ID, sig)
		}
	}
}
