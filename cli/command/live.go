package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/colorprofile"

	"tensorstack.dev/jobs/cli/screen"
)

// frameInterval is the minimum time between two snapshots. Without this limit, there would be too many snapshots
// while hundreds of replicas of a job start.
const frameInterval = 250 * time.Millisecond

// follower follows a job or several jobs, and makes snapshots of type S.
type follower[S any] interface {
	// Changes returns a channel that receives a value after something in the snapshot has changed.
	Changes() <-chan struct{}
	// Snapshot returns the latest snapshot. The bool is false until the first requests for the data have ended.
	Snapshot() (S, bool, error)
}

// live is a live view of a job or of all jobs. S is the type of its snapshots.
type live[S any] struct {
	// goesOn is the end of the error message after an interrupt, such as "ptjob/digits goes on".
	goesOn string
	// follow returns the follower, which stops when the context ends.
	follow func(context.Context) (follower[S], error)
	// outcome reports whether the wait for the jobs is over. If so, err is the error of the command.
	outcome func(S) (isDone bool, err error)
	// page returns the page that shows a snapshot.
	page func(S, screen.View, time.Time) screen.Page
	// print prints the changes since the previous snapshot, as lines or as whole objects.
	print func(S) error
}

// run shows the snapshots until the wait for the jobs is over, or until the user quits. It returns the error of the
// command.
func (l live[S]) run(ctx context.Context, e *environment, o watchOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	from, err := l.follow(ctx)
	if err != nil {
		return err
	}
	var outcome error
	key := screen.KeyNone
	if o.output == outputScreen {
		outcome, key, err = l.onScreen(ctx, from, e)
	} else {
		outcome, err = l.each(ctx, from, l.print)
	}
	switch {
	case key == screen.KeyQuit:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("--timeout=%s is over: kubectl train why explains what a job waits for", o.timeout)
	case errors.Is(err, context.Canceled) || key == screen.KeyInterrupt:
		return failure{errors.New("interrupted: " + l.goesOn), exitInterrupted}
	case err != nil:
		return err
	}
	return outcome
}

// each calls the function show with a new snapshot after changes. When the wait for the jobs is over, each returns
// the error of the command as outcome. If the wait ends early, err is the error of the follower, of show, or of the
// context.
func (l live[S]) each(ctx context.Context, from follower[S], show func(S) error) (outcome, err error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-from.Changes():
		}
		s, isReady, err := from.Snapshot()
		if err != nil {
			return nil, err
		}
		if isReady {
			if err := show(s); err != nil {
				return nil, err
			}
			if isDone, outcome := l.outcome(s); isDone {
				return outcome, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(frameInterval):
		}
	}
}

// onScreen shows the snapshots in the terminal. When the wait for the jobs is over, it prints the last page, which
// stays in the terminal. If the user quits earlier, key is the key that the user has pressed.
func (l live[S]) onScreen(
	ctx context.Context, from follower[S], e *environment,
) (outcome error, key screen.Key, err error) {
	var last S
	var failed error
	view, key, err := screen.Show(ctx, e.In, e.Out, func(ctx context.Context, show func(screen.Source)) {
		outcome, failed = l.each(ctx, from, func(s S) error {
			last = s
			show(func(v screen.View, now time.Time) screen.Page { return l.page(s, v, now) })
			return nil
		})
	})
	if err == nil && key == screen.KeyNone {
		if err = failed; err == nil {
			page := l.page(last, view, time.Now()).Print(view.Width)
			_, err = io.WriteString(colorprofile.NewWriter(e.Out, os.Environ()), page)
		}
	}
	return outcome, key, err
}
