package bench

import (
	"context"
	"syscall"
	"time"

	listwork "tensorstack.dev/jobs/test/internal/work"
)

// lists measures how a controller's CPU time for an object grows when one list in the object becomes 4 times as long.
// It records the greatest growth among all lists. The tests in test/work count operations for the same lists.
func lists(ctx context.Context, b *bench) error {
	subjects, err := listwork.Subjects(b.options.Repo)
	if err != nil {
		return err
	}
	most := 0.0
	for _, series := range listwork.AllSeries(subjects) {
		few, err := leastCPU(ctx, series[1])
		if err != nil {
			return err
		}
		many, err := leastCPU(ctx, series[2])
		if err != nil {
			return err
		}
		if growth := many.Seconds() / few.Seconds(); growth > most {
			most = growth
			b.progress.Printf("growth of %.1f to %s for %s", growth, many, series[2])
		}
	}
	b.record("list-growth", most)
	return nil
}

// leastCPU runs a case several times and returns the least CPU time of a run.
func leastCPU(ctx context.Context, c listwork.Case) (time.Duration, error) {
	const rounds = 3
	var least time.Duration
	for range rounds {
		before, err := cpu()
		if err != nil {
			return 0, err
		}
		_ = c.Do(ctx) // the error is ignored, because rejecting an invalid object is also work
		after, err := cpu()
		if err != nil {
			return 0, err
		}
		if took := after - before; least == 0 || took < least {
			least = took
		}
	}
	return max(least, time.Microsecond), nil
}

// cpu returns the CPU time of this process.
func cpu() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}
