package agent

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"tensorstack.dev/jobs/common/helper"
	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/common/trainlog"
)

// launching runs the command that starts the training.
type launching struct {
	*options
	key     ssh.Signer
	command []string
	// counter counts the restarts in place: the launcher runs again while the pods stay.
	counter *progress.RestartCounter
}

// launch is the subcommand of worker 0. Its error has the exit code of the training.
func launch(ctx context.Context, o *options, command []string) error {
	if err := o.findNeeded(); err != nil {
		return err
	}
	key, err := readKey(o.key)
	if err != nil {
		return err
	}
	listener, err := o.listen(ctx)
	if err != nil {
		return err
	}
	server := startServer(o, key, listener)
	defer server.stop()
	defer context.AfterFunc(ctx, server.letEnd)()
	l := &launching{options: o, key: key, command: command, counter: progress.NewRestartCounter(o.restarts)}
	if o.answer != 0 {
		go l.serveRestarts(ctx)
	}
	if o.max > 0 {
		return l.runElastic(ctx)
	}
	workers := firstWorkers(o.workers)
	if err := o.writeHostfile(workers); err != nil {
		return err
	}
	if !l.await(ctx, workers) {
		return &exitError{code: exitTerminated}
	}
	for {
		e, err := l.run(ctx)
		if err != nil {
			return err
		}
		if !l.restartsInPlace(ctx, e, workers) {
			return l.report(e)
		}
		l.startsAgain()
	}
}

// run is the subcommand for users in debug mode. The launcher replaces the process of the agent.
func run(o *options, command []string) error {
	cmd, err := o.launcherCommand(command)
	if err != nil {
		return err
	}
	//nolint:gosec // it exists to run a given command
	return &exitError{
		code: helper.ExitCannotRun, err: fmt.Errorf("running %s: %w", cmd.Path, syscall.Exec(cmd.Path, cmd.Args, cmd.Env)),
	}
}

// findNeeded returns an error if the image lacks a needed program. The subcommand launch calls findNeeded before the
// wait for the workers.
func (o *options) findNeeded() error {
	var missing []string
	for _, name := range o.need {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &exitError{code: helper.ExitNotFound, err: fmt.Errorf("the image lacks %s, which the launcher of DeepSpeed "+
		"needs: install it in the image (pdsh is a package of Linux distributions, deepspeed a package of pip), or use "+
		"customCommand", strings.Join(missing, " and "))}
}

// launcherCommand returns the command of the launcher. If the program does not exist, the error has the exit code that
// a shell would use.
func (o *options) launcherCommand(command []string) (*exec.Cmd, error) {
	command, words := hideWords(command, o.program)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // it exists to run a given command
	if cmd.Err != nil {
		return nil, &exitError{
			code: helper.ExitNotFound, err: fmt.Errorf("the launcher cannot be run: %w: it must be in the image", cmd.Err),
		}
	}
	cmd.Env = append(o.launcherEnvironment(), words...)
	return cmd, nil
}

// await returns true when all workers accept ssh, and false if the context is canceled first. It has no timeout. Only
// the deadline of the job limits the wait.
func (l *launching) await(ctx context.Context, missing []int) bool {
	l.log.Printf("waiting for %s to accept ssh", report.Count(len(missing), "worker"))
	for reminded := time.Now(); ; {
		var still []int
		var last error
		for i, err := range l.reach(ctx, l.key, missing) {
			if err != nil {
				still, last = append(still, missing[i]), err
			}
		}
		if len(still) == 0 {
			return ctx.Err() == nil
		}
		missing = still
		if time.Since(reminded) >= l.timing.remind {
			reminded = time.Now()
			l.log.Printf("still waiting for %s: %s; last error: %v",
				report.Count(len(missing), "worker"), l.names(missing), last)
		}
		if !pause(ctx, l.timing.retry) {
			return false
		}
	}
}

// names returns the host names of some of the workers, for a log line.
func (l *launching) names(workers []int) string {
	const most = 5
	var names []string
	for _, w := range workers[:min(most, len(workers))] {
		names = append(names, l.hostOf(w))
	}
	if len(workers) > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// pause waits for a duration. It returns false if the context is canceled first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// startsAgain reports to the receiver of progress, if the pod has one, that the training starts again.
func (o *options) startsAgain() {
	if err := progress.ReportStart(); err != nil {
		o.log.Print(err)
	}
}

// report prints the message about the exit code of a training. Unless the training has succeeded, it returns an error
// with the exit code.
func (l *launching) report(e ending) error {
	code, why := e.exitCode()
	if why != "" {
		l.log.Print(why)
	}
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

// run runs the launcher once, and returns how the training ended. A node command of the launcher starts the ranks of a
// host. The function waits until the launcher and its node commands have ended. After the end of the launcher, it waits
// at most timing.kill for the node commands.
func (l *launching) run(ctx context.Context) (ending, error) {
	r, err := openReports(l.startsAgain, l.stdout)
	if err != nil {
		return ending{}, err
	}
	cmd, err := l.launcherCommand(l.command)
	if err == nil {
		cmd.Env = append(cmd.Env, envSocket+"="+r.socket)
		cmd.Stdout, cmd.Stderr = l.stdout, l.stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err = cmd.Start(); err != nil {
			err = &exitError{code: helper.ExitCannotRun, err: fmt.Errorf("the launcher cannot be run: %w", err)}
		}
	}
	if err != nil {
		r.close(0)
		return ending{}, err
	}
	l.log.Print(trainlog.LaunchReport(l.command[0]))
	e := l.watch(ctx, cmd, r)
	areClosed := r.close(l.timing.kill)
	if !areClosed {
		l.log.Printf("the connections to some workers did not end in time; continuing without them")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ends processes that the launcher left behind
	last := r.now()
	e.isOver = areClosed && len(last.open) == 0
	e.hasLost = slices.ContainsFunc(last.failures, func(f nodeReport) bool { return f.IsLost })
	return e, nil
}

// watch waits for the launcher and returns how it ended. It terminates the launcher if the context is canceled, or if a
// node command has failed and the launcher does not end by itself.
func (l *launching) watch(ctx context.Context, cmd *exec.Cmd, r *reports) ending {
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	e := ending{trust: l.trust}
	failed, done := r.failed, ctx.Done()
	if l.trust {
		failed = nil
	}
	var timer <-chan time.Time
	var nodes *nodes // the state of the node commands when the launcher got SIGTERM
	end := func() {
		n := r.now()
		nodes = &n
		failed, done = nil, nil
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		timer = time.After(l.timing.kill)
	}
	for {
		select {
		case <-exited:
			if nodes == nil {
				n := r.now()
				nodes = &n
			}
			e.nodes = *nodes
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
				e.launcher = helper.ExitCode(status)
			}
			return e
		case <-done:
			e.terminated = true
			l.log.Printf("terminating the launcher")
			end()
		case <-failed:
			n := r.now()
			cause := n.cause()
			l.log.Printf("worker %s ended with exit code %d; the launcher has %s to end by itself",
				cause.Host, shellCode(cause.Code), l.grace)
			timer = time.After(l.grace)
		case <-timer:
			switch {
			case nodes != nil:
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				timer = nil
			case r.now().cause().Code == 0: // the launcher has started the node commands again
				timer = nil
			default:
				l.log.Printf("the launcher did not end by itself; terminating it")
				end()
			}
		}
	}
}

// ending is how a run of the launcher has ended.
type ending struct {
	launcher   int   // exit code of the launcher
	nodes      nodes // the state of the node commands when the launcher got SIGTERM or ended
	terminated bool  // whether the agent was told to end
	trust      bool  // whether only the exit code of the launcher counts
	isOver     bool  // whether all node commands have ended, at the end of the function run
	hasLost    bool  // whether the connection to a host was lost
}

// exitCode returns the exit code of the training. If the state of the node commands determines the code, exitCode
// also returns a message about the reason.
func (e ending) exitCode() (int, string) {
	cause, launched := e.nodes.cause(), shellCode(e.launcher)
	switch code := shellCode(cause.Code); {
	case code != 0 && !e.trust:
		return code, trainlog.AgentReport(cause.Host, code, launched, cause.Tail)
	case e.terminated && (launched == 0 || launched == 1): // DeepSpeed exits with 1 after a signal
		return exitTerminated, ""
	case launched == 0 && len(e.nodes.open) > 0 && !e.trust:
		return 1, fmt.Sprintf("the launcher exited with 0 while the training still ran on %s: pdsh or ssh was killed",
			strings.Join(e.nodes.open, ", "))
	}
	return launched, ""
}

// cause returns the root cause among the failures. Its code is 0 if there are no failures. A rank that loses its
// peers ends with an exception or aborts. So failures with other exit codes come first, then failures whose output is
// not only about lost peers. Among equals, the first failure is the root cause.
func (n nodes) cause() nodeReport {
	if len(n.failures) == 0 {
		return nodeReport{}
	}
	return slices.MinFunc(n.failures, func(a, b nodeReport) int { return cmp.Compare(a.doubt(), b.doubt()) })
}

// doubt returns a value to compare failures by. The lower the value, the more likely the failure is the root cause.
func (r nodeReport) doubt() int {
	switch {
	case trainlog.IsOwnFault(new(int32(shellCode(r.Code)))): //nolint:gosec // from 0 to 255
		return 0
	case trainlog.Read(r.Tail).LostPeers:
		return 2
	default:
		return 1
	}
}

// shellCode converts an exit code of DeepSpeed into the exit code that a shell would use. If a signal killed a rank,
// DeepSpeed exits with the negative number of the signal.
func shellCode(code int) int {
	if code > 192 && code < exitLost {
		return helper.ExitSignal + 256 - code
	}
	return code
}
