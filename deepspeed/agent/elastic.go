package agent

import (
	"context"
	"slices"
	"time"

	"tensorstack.dev/jobs/common/report"
)

// runElastic runs the launcher with the available workers. It starts the launcher again when the workers change.
func (l *launching) runElastic(ctx context.Context) error {
	for isFirst := true; ; isFirst = false {
		workers := l.settle(ctx)
		if workers == nil {
			return &exitError{code: exitTerminated}
		}
		if !isFirst {
			l.startsAgain()
		}
		if err := l.writeHostfile(workers); err != nil {
			return err
		}
		l.log.Printf("launching with %s: %s", report.Count(len(workers), "worker"), l.names(workers))
		attempt, stop := context.WithCancel(ctx)
		changed := make(chan bool, 1)
		go func() {
			changed <- l.changed(attempt, workers)
			stop()
		}()
		e, err := l.run(attempt)
		stop()
		hasChanged := <-changed && ctx.Err() == nil // changed soon gets a value, since stop was called
		if err != nil {
			return err
		}
		if !hasChanged && l.restartsInPlace(ctx, e, workers) {
			continue
		}
		failed := l.report(e)
		switch {
		case failed == nil:
			return nil
		case hasChanged:
			l.log.Printf("the workers have changed; launching again")
		case ctx.Err() != nil || !l.lost(ctx, workers):
			return failed
		default:
			l.log.Printf("the training failed because the workers have changed; launching again")
		}
	}
}

// present returns the workers that accept ssh.
func (l *launching) present(ctx context.Context) []int {
	workers := firstWorkers(l.max)
	var present []int
	for i, err := range l.reach(ctx, l.key, workers) {
		if err == nil {
			present = append(present, workers[i])
		}
	}
	return present
}

// settle waits until enough workers accept ssh, worker 0 among them, and the workers have been the same for some
// time. It returns nil if the context is canceled first.
func (l *launching) settle(ctx context.Context) []int {
	var workers []int
	reminded, since := time.Now(), time.Now()
	for {
		now := l.present(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case !slices.Equal(now, workers):
			workers, since = now, time.Now()
		case len(now) >= l.min && slices.Contains(now, 0) && time.Since(since) >= l.timing.settle:
			return now
		case time.Since(reminded) >= l.timing.remind:
			reminded = time.Now()
			l.log.Printf("still waiting for at least %d workers, including %s; %d are available: %s",
				l.min, l.hostOf(0), len(now), l.names(now))
		}
		if !pause(ctx, l.timing.retry) {
			return nil
		}
	}
}

// changed waits until two consecutive checks find the same workers, and these differ from the given workers. It
// returns false if the context is canceled first.
func (l *launching) changed(ctx context.Context, workers []int) bool {
	for before := workers; pause(ctx, l.timing.probe); {
		now := l.present(ctx)
		if ctx.Err() == nil && !slices.Equal(now, workers) && slices.Equal(now, before) {
			return true
		}
		before = now
	}
	return false
}

// lost reports whether a change of the workers caused a failure that has just happened. It checks the workers for a
// while, because the change might become visible a little later than the failure.
func (l *launching) lost(ctx context.Context, workers []int) bool {
	for start := time.Now(); ; {
		if now := l.present(ctx); ctx.Err() == nil && !slices.Equal(now, workers) {
			return true
		}
		if time.Since(start) >= l.timing.blame || !pause(ctx, l.timing.retry) {
			return false
		}
	}
}
