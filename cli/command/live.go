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

// frameInterval is the least time between two snapshots. The status of a job of hundreds of replicas changes often
// while it starts.
const frameInterval = 250 * time.Millisecond

// follower follows something that changes.
type follower[S any] interface {
	// Changes receives a value after changes.
	Changes() <-chan struct{}
	// Snapshot returns what is known, and false as long as that is not enough to show.
	Snapshot() (S, bool, error)
}

// live is a live view of something, which has snapshots of type S.
type live[S any] struct {
	// goesOn is the end of the error after an interrupt, such as "ptjob/digits goes on".
	goesOn string
	// follow returns the follower, which stops when the context ends.
	follow func(context.Context) (follower[S], error)
	// outcome reports whether the jobs are where they are waited for. It then also returns the error of the command.
	outcome func(S) (isDone bool, err error)
	// page returns the page of a snapshot.
	page func(S, screen.View, time.Time) screen.Page
	// print prints the difference of a snapshot and the one before.
	print func(S) error
}

// run shows the snapshots until the jobs are where they are waited for, or until the user quits.
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

// each calls show with a snapshot after changes, until the jobs are where they are waited for. It returns their outcome
// then, and otherwise the error of show or of the context.
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

// onScreen shows the snapshots in the terminal. When the jobs are where they are waited for, it prints the last page,
// which stays in the terminal.
func (l live[S]) onScreen(
	ctx context.Context, from follower[S], e *environment,
) (outcome error, key screen.Key, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages, ended := make(chan screen.Source), make(chan struct{})
	var last S
	var failed error
	go func() {
		defer close(ended)
		defer close(pages)
		outcome, failed = l.each(ctx, from, func(s S) error {
			last = s
			select {
			case pages <- func(v screen.View, now time.Time) screen.Page { return l.page(s, v, now) }:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	view, key, err := screen.Show(ctx, e.In, e.Out, pages)
	stop()
	<-ended
	if err == nil && key == screen.KeyNone {
		if err = failed; err == nil {
			page := l.page(last, view, time.Now()).Print(view.Width)
			_, err = io.WriteString(colorprofile.NewWriter(e.Out, os.Environ()), page)
		}
	}
	return outcome, key, err
}
