package bench

import (
	"context"
	"syscall"
	"time"

	listwork "tensorstack.dev/jobs/test/internal/work"
)

// lists measures how the CPU time for an object grows when a list of a tenant has 4 times as many items. The tests in
// test/work count the operations of the same cases.
func lists(ctx context.Context, b *bench) error {
	subjects, err := listwork.Subjects(b.options.Repo)
	if err != nil {
		return err
	}
	most := 0.0
	cases := listwork.Cases(subjects)
	for i := 0; i < len(cases); i += 3 {
		var times [3]float64 // in microseconds
		for j := range times {
			if times[j], err = leastCPU(ctx, cases[i+j]); err != nil {
				return err
			}
		}
		const notable = 2000 // the times of less work vary too much
		if growth := listwork.Growth(times[0], times[1], times[2]); times[2]-times[0] > notable && growth > most {
			most = growth
			b.progress.Printf("growth of %.1f to %.0f µs for %s", growth, times[2], cases[i+2])
		}
	}
	b.record("list-growth", most)
	return nil
}

// leastCPU returns the least CPU time that a case takes, in microseconds.
func leastCPU(ctx context.Context, c listwork.Case) (float64, error) {
	const rounds = 3
	var least time.Duration
	for round := range rounds {
		before, err := cpu()
		if err != nil {
			return 0, err
		}
		_ = c.Do(ctx) // to find that an object is invalid is work, too
		after, err := cpu()
		if err != nil {
			return 0, err
		}
		if took := after - before; round == 0 || took < least {
			least = took
		}
	}
	return float64(least.Microseconds()), nil
}

// cpu returns the CPU time of this process.
func cpu() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}
