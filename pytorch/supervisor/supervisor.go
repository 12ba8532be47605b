// Package supervisor is the first process in the pods of replicas that run torchrun. It ends torchrun in such a way
// that the training processes have the whole grace period of the pod, and that the other replicas can train on. It also
// limits how often torchrun starts the training again, and reports when it does.
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
// torchrun starts all training processes again when one of them fails or when the replicas change. Its own limit cannot
// tell the two apart: each torchrun counts whenever its processes fail, also if that is because another replica was
// lost. So torchrun gets a limit that it does not reach, and the supervisors count. When the first process of a round
// fails in a pod, its supervisor freezes torchrun and asks the supervisor of the leader, which has the account. See
// account.go.
//
// If the pod has a receiver of progress, the supervisor reports each new start, so that the time in which the program
// loads its data and its model again is not taken for a stall.
package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
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
	"tensorstack.dev/jobs/common/trainlog"
)

const (
	// Folder is the folder of the supervisor in the pods of replicas.
	Folder = "/t9k/supervisor"
	// name is the file name of the program when it runs as the supervisor.
	name = "supervise"
)

// program is the path of the supervisor in the pods of replicas.
var program = path.Join(Folder, name)

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

const (
	// lookInterval is the interval between two checks whether processes of a frozen torchrun run.
	lookInterval = 100 * time.Millisecond
	// killAfter is how long the processes have to end when the supervisor ends torchrun after a failure.
	killAfter = 30 * time.Second
	// orderTimeout is how long the supervisor waits for a verdict after torchrun has ended. It is less than the default
	// time that the controller waits for failures of other replicas.
	orderTimeout = time.Second
)

// supervise runs the supervisor with the arguments and returns its exit code.
func supervise(args []string) int {
	// Processes whose parent ends become children of the supervisor, even if it is not the first process of the pod.
	if err := becomeSubreaper(); err != nil {
		return fail(helper.ExitCannotRun, os.NewSyscallError("prctl", err))
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	options, command, err := parse(args)
	if err != nil {
		return fail(helper.ExitCannotRun, err)
	}
	file, err := exec.LookPath(command[0])
	if err != nil {
		return fail(helper.ExitNotFound, err)
	}
	torchrun, err := startTorchrun(file, command) // before the budget, whose threads would take process IDs
	if err != nil {
		return fail(helper.ExitCannotRun, err)
	}
	logger := log.New(os.Stderr, name+": ", 0)
	var own budget
	switch b := options.Budget; {
	case b == nil:
	case b.IsLeader:
		l := newLeader(*b, logger)
		l.listen(context.Background(), b.Leader)
		own = l
	default:
		f := newFollower(*b, logger)
		go f.follow()
		own = f
	}
	s := supervision{
		torchrun: torchrun, passesSignals: options.PassesSignals, budget: own, log: logger, passed: map[int]bool{},
		onlyOrder: options.Budget != nil && options.Budget.OnlyOrder,
	}
	return s.run(signals)
}

// supervision is the state of a supervisor while torchrun runs.
type supervision struct {
	torchrun      *os.Process
	passesSignals bool
	budget        budget // nil means that there is none
	onlyOrder     bool   // whether torchrun ends by itself after a failure
	log           *log.Logger

	received syscall.Signal   // the signal for the processes, 0 while they need not end
	frozen   <-chan time.Time // ticks while torchrun is frozen and its processes end
	passed   map[int]bool     // the processes that have got the signal
	failed   *failure         // the failure after which the supervisor ends torchrun, nil if there is none
	killAt   time.Time
}

// run returns the exit code of torchrun when it ends by itself. The first signal freezes torchrun and goes to its
// processes. Once these have ended, run kills torchrun, passes the signal to processes that are left, and waits for
// their end. The exit code is then 128 plus the number of the signal. If passesSignals is set, torchrun gets the
// signals instead. If the budget does not allow torchrun to start the processes again, run sends them SIGTERM, and
// SIGKILL after killAfter. It then returns 1, the exit code of a torchrun that gives up, without waiting for other
// processes.
func (s *supervision) run(signals <-chan os.Signal) int {
	ended := make(chan exit)
	go reap(ended)
	failures, verdicts := make(chan failure), make(chan decision)
	if s.budget != nil || os.Getenv(progress.EnvFile) != "" {
		go s.observe(failures, verdicts)
	}
	var order chan bool // gets whether the last failure was the first one, nil if there was none or its code is unknown
	for {
		select {
		case sig := <-signals:
			if s.passesSignals {
				_ = s.torchrun.Signal(sig)
				continue
			}
			if s.received == 0 {
				if s.budget != nil {
					s.budget.leave()
				}
				number, _ := sig.(syscall.Signal)
				s.end(number)
			}
		case f := <-failures:
			switch {
			case s.onlyOrder:
				asked := make(chan bool, 1)
				go func() { asked <- s.budget.fail(f).IsFirst }()
				if order = nil; f.Code != 0 {
					order = asked
				}
			case s.received == 0:
				_ = s.torchrun.Signal(syscall.SIGSTOP)
				go func() { verdicts <- decision{s.budget.fail(f), f} }()
			}
		case d := <-verdicts:
			s.follow(d)
		case now := <-s.frozen:
			if s.failed != nil && now.After(s.killAt) {
				s.received = syscall.SIGKILL
				clear(s.passed)
			}
			if !pass(s.received, s.torchrun.Pid, s.passed) {
				s.frozen = nil
				_ = s.torchrun.Kill()
			}
		case e, more := <-ended:
			if !more {
				return s.exitCode()
			}
			killed := s.received != 0 && e.status.Signaled() && e.status.Signal() == syscall.SIGKILL
			switch {
			case e.pid != s.torchrun.Pid:
			case !killed:
				code := helper.ExitCode(e.status)
				if code != 0 {
					s.reportOrder(order)
				}
				return code
			case s.failed != nil: // no grace period would end processes that are left
				return s.exitCode()
			}
			delete(s.passed, e.pid)
			if s.received != 0 {
				pass(s.received, os.Getpid(), s.passed)
			}
		}
	}
}

// end freezes torchrun, and passes the signal to its processes from then on.
func (s *supervision) end(with syscall.Signal) {
	s.received = with
	_ = s.torchrun.Signal(syscall.SIGSTOP)
	s.frozen = time.Tick(lookInterval)
}

// decision is the verdict on a failure.
type decision struct {
	verdict
	failure failure
}

// follow lets torchrun start the processes again, or ends it. It does nothing if they end anyway.
func (s *supervision) follow(d decision) {
	switch {
	case s.received != 0 || s.onlyOrder:
	case d.Restarts:
		_ = s.torchrun.Signal(syscall.SIGCONT)
	default:
		s.failed, s.killAt = &d.failure, time.Now().Add(killAfter)
		s.log.Printf("ending torchrun: %s", d.Explanation)
		s.end(syscall.SIGTERM)
	}
}

// exitCode returns the exit code after the supervisor has ended torchrun. If it did so because of a failure, it prints
// which rank failed, since torchrun does not.
func (s *supervision) exitCode() int {
	if s.failed == nil {
		return helper.ExitSignal + int(s.received)
	}
	if s.failed.Code != 0 {
		s.log.Print(trainlog.RankReport(s.failed.Rank, s.failed.Code))
	}
	return 1
}

// reportOrder prints that the failure after which torchrun has ended was the first one, if the leader replies so in
// time. Nil means that there was no failure.
func (s *supervision) reportOrder(order <-chan bool) {
	if order == nil {
		return
	}
	select {
	case isFirst := <-order:
		if isFirst {
			s.log.Print(trainlog.FirstReport)
		}
	case <-time.After(orderTimeout):
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
