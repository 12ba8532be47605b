package mutation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Runner tests packages.
type Runner struct {
	// Root is the root of the repository.
	Root string
	// Output receives the survivors and the scores.
	Output io.Writer
	// Behind is true if the tests of Package.Behind also run. They run on the mutants that the unit tests do not detect
	// and testdata/mutants.yaml does not explain.
	Behind bool
	// Parallel is the number of tests that run at the same time.
	Parallel int
}

// Run tests a package, prints the survivors, and returns the score. It returns an error if the score is worse than
// the recorded score, or if an entry in testdata/mutants.yaml explains no survivor.
func (r *Runner) Run(ctx context.Context, p Package) (Score, error) {
	folder, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return Score{}, err
	}
	defer os.RemoveAll(folder)
	t, err := newTarget(r.Root, p.Path, p.Files, folder)
	if err != nil {
		return Score{}, err
	}
	survivors := t.mutants
	for _, dir := range append([]string{p.Path}, p.With...) {
		if survivors, err = r.survivors(ctx, t, survivors, dir, folder, unitLimit); err != nil {
			return Score{}, err
		}
	}
	left, explained, errOfEntries := explain(survivors, t.equivalents)
	score := Score{Mutants: len(t.mutants), Killed: len(t.mutants) - len(survivors), Explained: explained}
	if len(left) == p.left() {
		score.KilledBehind = p.KilledBehind
	}
	if r.Behind && p.Behind != "" {
		behind, err := r.survivors(ctx, t, left, p.Behind, folder, behindLimit, "-test.short")
		if err != nil {
			return Score{}, err
		}
		score.KilledBehind = new(len(left) - len(behind))
		for i, m := range left {
			if !slices.Contains(behind, m) {
				left[i].Change += " (found by " + p.Behind + ")"
			}
		}
	}
	score.Left = map[string]int{}
	for _, m := range left {
		fmt.Fprintln(r.Output, m)
		score.Left[m.File]++
	}
	fmt.Fprintf(r.Output, "%s: unit tests find %d of %d bugs, no test can find %d, %d survive: %.1f %%\n\n",
		p.Path, score.Killed, score.Mutants, score.Explained, len(left), score.Percent())
	return score, errors.Join(errOfEntries, score.compare(p.Score))
}

// survivors returns the mutants that the tests of a package do not detect.
func (r *Runner) survivors(
	ctx context.Context, t *target, mutants []Mutant, dir, folder string, limit time.Duration, flags ...string,
) ([]Mutant, error) {
	s, err := t.compile(ctx, dir, folder, limit, flags...)
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, folder, r.Parallel); err != nil {
		return nil, err
	}
	return s.survivors(ctx, mutants, r.Parallel)
}
