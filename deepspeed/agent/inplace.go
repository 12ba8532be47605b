package agent

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/trainlog"
)

// serveRestarts lets the controller read the restarts in place, until the process ends.
func (l *launching) serveRestarts(ctx context.Context) {
	listener, err := progress.Listen(ctx, strconv.Itoa(l.answer))
	if err == nil {
		state := func() progress.State { return l.counter.State(time.Now()) }
		err = progress.NewServer(progress.Handler(l.attempt, state), l.log).Serve(listener)
	}
	l.log.Printf("the job controller cannot read the restarts in place: %v", err)
}

// restartsInPlace reports whether the launcher can run again in the same pods. If so, it counts a restart. The launcher
// cannot run again if no training process has failed, if a worker is lost or is about to end, or if processes of the
// training might still run.
func (l *launching) restartsInPlace(ctx context.Context, e ending, workers []int) bool {
	code, _ := e.exitCode()
	if l.restarts == 0 || code == 0 || len(e.nodes.failures) == 0 || !e.isOver || e.hasLost {
		return false
	}
	if err := l.accept(ctx, workers); err != nil {
		l.log.Printf("a worker is lost, so this is no restart in place; last error: %v", err)
		return false
	}
	var step *int64
	if slices.Contains(e.nodes.hosts, l.hostOf(0)) { // this worker runs rank 0, so its pod has the progress
		step = progress.ReadStep(ctx)
	}
	if ctx.Err() != nil {
		return false
	}
	failed := e.nodes.cause().restart()
	restarts, explanation := l.counter.Count(failed, step, time.Now())
	l.log.Printf("%s: %s", failed, explanation)
	return restarts
}

// accept returns an error of a worker that accepts no ssh, and nil if all accept it. A worker that gets SIGTERM accepts
// none from then on, while its processes can still run. Other connections can fail for a moment, so accept tries more
// than once.
func (l *launching) accept(ctx context.Context, workers []int) error {
	const attempts = 3
	for i := 1; ; i++ {
		var last error
		for _, err := range l.reach(ctx, l.key, workers) {
			last = cmp.Or(err, last)
		}
		if last == nil || i == attempts || !pause(ctx, l.timing.retry) {
			return last
		}
	}
}

// restart returns the restart in place after the failure for the controller.
func (r nodeReport) restart() progress.Restart {
	replica, _, _ := strings.Cut(r.Host, ".")
	known := trainlog.Read(r.Tail)
	code := known.ExitCode
	if code == nil {
		code = new(int32(shellCode(r.Code))) //nolint:gosec // from 1 to 255
	}
	return progress.Restart{Replica: replica, Rank: known.Rank, Code: code}
}
