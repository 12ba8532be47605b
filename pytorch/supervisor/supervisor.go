// Package supervisor ends the torchrun of an elastic job in such a way that the other replicas train on.
//
// The versions 2.3 to 2.7 of torch close the rendezvous when torchrun gets SIGTERM, for example because the job is
// scaled down or the node is drained. Then the other replicas cannot continue without the one that leaves. Earlier
// versions leave the rendezvous open, and the replicas that stay notice the end of a connection. The supervisor ends
// every version like that: it kills torchrun, and passes the signal to the training processes, which have the rest of
// the grace period.
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
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/common/helper"
)

const (
	// Folder is the folder of the supervisor in the pods of replicas.
	Folder = "/t9k/supervisor"
	// InstallName is the name of the subcommand that copies the supervisor into a folder.
	InstallName = "install-supervisor"
	// name is the name under which the program is the supervisor.
	name = "supervise"
)

// Program is the path of the supervisor in the pods of replicas. Its arguments are the command that it runs.
var Program = path.Join(Folder, name)

// Main runs the supervisor and ends the process, if the program was called as the supervisor. Otherwise, it returns.
func Main() {
	if filepath.Base(os.Args[0]) == name {
		os.Exit(supervise(os.Args[1:]))
	}
}

// InstallCommand returns the command that the init container of a replica runs.
func InstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   InstallName + " FOLDER",
		Short: "Copy the supervisor of torchrun into a folder (run by the init container of a replica)",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := helper.Install(filepath.Join(args[0], name)); err != nil {
				return fmt.Errorf("installing the supervisor of torchrun: %w: the folder must be a volume that the user of the "+
					"init container can write to", err)
			}
			return nil
		},
	}
}

// supervise runs the command and returns its exit code. When it gets one of the signals that end torchrun, it ends the
// command as the package describes, waits for all processes, and returns 128 plus the number of the signal.
func supervise(command []string) int {
	// Processes whose parent ends become children of the supervisor, also if it is not the first process of the pod.
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
	var received syscall.Signal // 0 until there is one
	passed := map[int]bool{}    // the processes that have got it
	for {
		select {
		case sig := <-signals:
			if received == 0 {
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

// pass sends the signal to each child that has not got it. The processes of torchrun are children once it has ended.
func pass(sig syscall.Signal, passed map[int]bool) {
	for _, pid := range children() {
		if !passed[pid] {
			passed[pid] = true
			_ = syscall.Kill(pid, sig)
		}
	}
}

// children returns the process IDs of the children of this process.
func children() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file) //nolint:gosec // the path is the kernel's
		// The name of the program, in parentheses, can contain any character. The state and the parent follow.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}
