package agent

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"tensorstack.dev/jobs/common/helper"
)

// runInit runs the agent as a child process and reaps all other processes, as the first process of a container must.
// Otherwise, a process that outlives its parent would stay a zombie, since the agent waits only for its own children.
// runInit returns the exit code of the agent.
func runInit(args []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2)
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	//nolint:gosec // the program and its arguments are the controller's own
	agent, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{Files: files})
	if err != nil {
		return exitCodeOf(err)
	}
	go func() {
		for s := range signals {
			_ = agent.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exitCodeOf(os.NewSyscallError("wait4", err))
		case pid == agent.Pid:
			return helper.ExitCode(status)
		}
	}
}
