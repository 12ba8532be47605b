package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
)

// patience is how long a narrator waits before it prints its first text about a wait, and the minimum time between
// two texts.
const patience = time.Second

// waitFlags are the flags of commands that wait.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

// add adds the flags to a command.
func (f *waitFlags) add(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until "+until)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait, such as 5m (0: without limit)")
}

// oneLine returns the description of a wait as one printable line of limited length, since a part of the description
// can come from another program.
func oneLine(text string) string { return printable.Shortened(printable.Line(text), 300) }

// narrator prints the description of a wait after the wait has taken longer than the time in patience. After that, it
// prints each new description, but leaves at least this time between two texts.
type narrator struct {
	out io.Writer
	// timer calls print when the next text may be printed.
	timer *time.Timer

	// mutex guards the fields below. hint is printed once, after the first text.
	mutex                 sync.Mutex
	hint, latest, printed string
	quietSince            time.Time
}

// narrate returns a narrator that prints to out. The caller must call its method end.
func narrate(out io.Writer, hint string) *narrator {
	n := &narrator{out: out, hint: hint}
	n.timer = time.AfterFunc(patience, n.print)
	return n
}

// tell sets the description of the wait. An empty text means that the command does not wait.
func (n *narrator) tell(text string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.latest == "" { // a wait begins
		n.printed, n.quietSince = "", time.Now()
	}
	n.latest = text
	n.timer.Reset(patience - time.Since(n.quietSince))
}

// print prints the latest description, unless it is printed already. It can run late, after tell has begun another
// wait. Then the timer calls it again.
func (n *narrator) print() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.latest == "" || n.latest == n.printed || time.Since(n.quietSince) < patience {
		return
	}
	_, _ = fmt.Fprintln(n.out, "Waiting:", oneLine(n.latest))
	if n.hint != "" {
		_, _ = fmt.Fprintln(n.out, n.hint)
		n.hint = ""
	}
	n.printed, n.quietSince = n.latest, time.Now()
}

// end ends the narrator. Nothing is printed afterwards.
func (n *narrator) end() { n.tell("") }

// await waits until a job reaches the goal, and prints the reason why the job has not reached it yet. See waiting for
// the parameters timeout and done.
func (e *environment) await(
	ctx context.Context, c *cluster, job jobs.Job, goal jobs.Goal, timeout time.Duration, done string,
) error {
	return e.waiting(ctx, timeout, done, func(ctx context.Context, tell func(string)) error {
		return c.awaitGoal(ctx, job, goal, tell)
	})
}

// awaitGoal waits until a job reaches the goal. It calls the function tell with the reason why the job has not reached
// it yet.
func (c *cluster) awaitGoal(ctx context.Context, job jobs.Job, goal jobs.Goal, tell func(string)) error {
	return c.observeJob(ctx, job, func(now *jobs.Job) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%s was deleted meanwhile", job.Ref())
		}
		waitsFor, err := goal(*now)
		tell(waitsFor)
		return waitsFor == "", err
	})
}

// errTimeout means that a wait has taken longer than its timeout.
var errTimeout = errors.New("timed out")

// waiting calls the function wait with a context that ends after the timeout, and prints what wait tells that it waits
// for. A timeout of 0 means none. The parameter done describes the change so far, such as "the job is being paused". If
// the wait times out or is interrupted, the error includes this description.
func (e *environment) waiting(
	ctx context.Context, timeout time.Duration, done string,
	wait func(ctx context.Context, tell func(waitsFor string)) error,
) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	narrator := narrate(e.ErrOut, "Press Ctrl-C to stop waiting: "+done+".")
	defer narrator.end()
	latest := ""
	err := wait(ctx, func(waitsFor string) {
		latest = waitsFor
		narrator.tell(waitsFor)
	})
	return explainWait(err, timeout, done, latest)
}

// explainWait returns the error of the command after a wait that ended with err, or nil if err is nil. The parameter
// done describes the change so far, and waitsFor describes what the job still waits for.
func explainWait(err error, timeout time.Duration, done, waitsFor string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTimeout):
		text := fmt.Sprintf("%s, but timed out after %s", done, timeout)
		if waitsFor != "" {
			text += ": " + oneLine(waitsFor)
		}
		return errors.New(text)
	case errors.Is(err, context.Canceled):
		return failure{error: fmt.Errorf("interrupted: %s, and this command no longer waits", done), code: exitInterrupted}
	case errors.Is(err, jobs.ErrFailed):
		return failure{error: err, code: exitJobFailed}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s, but the command cannot wait: %w", done, err)
	default:
		return err
	}
}
