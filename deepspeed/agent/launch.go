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

	"tensorstack.dev/jobs/common/launcher"
)

// launching runs the command that starts the training.
type launching struct {
	*options
	key     ssh.Signer
	command []string
}

// launch is the command of worker 0. Its exit code is that of the training.
func launch(ctx context.Context, o *options, command []string) error {
	if err := o.findNeeded(); err != nil {
		return err
	}
	key, err := readKey(o.key)
	if err != nil {
		return err
	}
	listener, err := o.listen()
	if err != nil {
		return err
	}
	defer startServer(o, key, listener).stop()
	l := &launching{options: o, key: key, command: command}
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
	code, err := l.run(ctx)
	if err == nil && code != 0 {
		err = &exitError{code: code}
	}
	return err
}

// run is the command for people: it becomes the launcher.
func run(o *options, command []string) error {
	cmd, err := o.launcherCommand(command)
	if err != nil {
		return err
	}
	//nolint:gosec // it runs what it is told to
	return &exitError{
		code: exitCannotRun, err: fmt.Errorf("running %s: %w", cmd.Path, syscall.Exec(cmd.Path, cmd.Args, cmd.Env)),
	}
}

// findNeeded says which programs the image lacks before anything waits for anyone.
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
	return &exitError{code: exitNotFound, err: fmt.Errorf("the image lacks %s, which the launcher of DeepSpeed needs: "+
		"install it in the image (pdsh is a package of Linux distributions, deepspeed one of pip), or launch by customCommand", strings.Join(missing, " and "))}
}

// launcherCommand prepares the command. A launcher that cannot be run ends the agent as it would end a shell.
func (o *options) launcherCommand(command []string) (*exec.Cmd, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // it runs what it is told to
	if cmd.Err != nil {
		return nil, &exitError{
			code: exitNotFound, err: fmt.Errorf("the launcher cannot be run: %w: it must be in the image", cmd.Err),
		}
	}
	cmd.Env = o.launcherEnvironment()
	return cmd, nil
}

// await returns when all workers accept ssh, or false when the context ends. Only the job's own deadline limits the
// time.
func (l *launching) await(ctx context.Context, missing []int) bool {
	l.log.Printf("waiting for %d workers to accept ssh", len(missing))
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
			l.log.Printf("still waiting for %d workers: %s; the last: %v", len(missing), l.names(missing), last)
		}
		if !pause(ctx, l.timing.retry) {
			return false
		}
	}
}

// names lists some workers for a line of the log.
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

// pause returns false if the context ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// run runs the launcher once, and returns when it and all that it started on the hosts has ended.
func (l *launching) run(ctx context.Context) (int, error) {
	r, err := openReports()
	if err != nil {
		return 0, err
	}
	cmd, err := l.launcherCommand(l.command)
	if err == nil {
		cmd.Env = append(cmd.Env, envSocket+"="+r.socket)
		cmd.Stdout, cmd.Stderr = l.stdout, l.stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err = cmd.Start(); err != nil {
			err = &exitError{code: exitCannotRun, err: fmt.Errorf("the launcher cannot be run: %w", err)}
		}
	}
	if err != nil {
		r.close(0)
		return 0, err
	}
	l.log.Printf("running %s", l.command[0])
	e := l.watch(ctx, cmd, r)
	if !r.close(l.timing.kill) {
		l.log.Printf("the connections to some workers do not end; going on without them")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the launcher left behind
	code, why := e.exitCode()
	if why != "" {
		l.log.Print(why)
	}
	return code, nil
}

// watch returns how the launcher ended, which may be by us: if the context ends, or if a node command failed and the
// launcher does not end of it.
func (l *launching) watch(ctx context.Context, cmd *exec.Cmd, r *reports) ending {
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	e := ending{trust: l.trust}
	failed, done := r.failed, ctx.Done()
	if l.trust {
		failed = nil
	}
	var timer <-chan time.Time
	var nodes *nodes // as they stood before we ended anything
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
				e.launcher = statusCode(status)
			}
			return e
		case <-done:
			e.terminated = true
			l.log.Printf("ending the launcher")
			end()
		case <-failed:
			n := r.now()
			cause := n.cause()
			l.log.Printf("worker %s ended with %d; the launcher has %s to end by itself",
				cause.host, shellCode(cause.code), l.grace)
			timer = time.After(l.grace)
		case <-timer:
			switch {
			case nodes != nil:
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				timer = nil
			case r.now().cause().code == 0: // the launcher tries again
				timer = nil
			default:
				l.log.Printf("the launcher did not end by itself; ending it")
				end()
			}
		}
	}
}

// ending is all that the exit code depends on.
type ending struct {
	launcher   int   // its exit code
	nodes      nodes // before we ended anything
	terminated bool  // since we were told to end
	trust      bool  // in the launcher alone
}

// exitCode returns how the training ended, with a line that says why if the launcher said otherwise.
func (e ending) exitCode() (int, string) {
	cause, launched := e.nodes.cause(), shellCode(e.launcher)
	switch code := shellCode(cause.code); {
	case code != 0 && !e.trust:
		return code, launcher.AgentReport(cause.host, code, launched, cause.tail)
	case e.terminated && (launched == 0 || launched == 1): // DeepSpeed's answer to a signal is 1
		return exitTerminated, ""
	case launched == 0 && len(e.nodes.open) > 0 && !e.trust:
		return 1, fmt.Sprintf("the launcher ended with 0 while the training still ran on %s: pdsh or ssh was killed",
			strings.Join(e.nodes.open, ", "))
	}
	return launched, ""
}

// cause returns the failure that the others followed from; the code 0 is none. A rank that loses its peers ends with an
// exception or aborts, so that any other code says more, and then an output that is not only about lost peers;
// else it is the first.
func (n nodes) cause() nodeReport {
	if len(n.failures) == 0 {
		return nodeReport{}
	}
	return slices.MinFunc(n.failures, func(a, b nodeReport) int { return cmp.Compare(a.doubt(), b.doubt()) })
}

// doubt is how well the failure may have followed from another one.
func (r nodeReport) doubt() int {
	switch {
	case launcher.Tells(new(int32(shellCode(r.code)))): //nolint:gosec // from 0 to 255
		return 0
	case launcher.Read(r.tail).LostPeers:
		return 2
	default:
		return 1
	}
}

// shellCode undoes what Python makes of a rank that a signal killed: DeepSpeed exits with the signal's number below
// zero.
func shellCode(code int) int {
	if code > 192 && code < exitLost {
		return exitSignal + 256 - code
	}
	return code
}
