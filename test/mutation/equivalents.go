package mutation

import (
	"errors"
	"fmt"

	"tensorstack.dev/jobs/test/internal/mutant"
)

// explain returns the survivors that no entry of equivalents explains, and the number of the explained survivors. It
// returns an error for an entry that explains no survivor: a test detects the mutant, or there is no such mutant.
func explain(survivors []Mutant, equivalents []mutant.Equivalent) (left []Mutant, explained int, err error) {
	used := map[mutant.Equivalent]bool{}
	for _, m := range survivors {
		isExplained := false
		for _, e := range equivalents {
			if e.Path == m.File && e.Line == m.Line && e.Change == m.Change {
				used[e], isExplained = true, true
			}
		}
		if isExplained {
			explained++
		} else {
			left = append(left, m)
		}
	}
	var errs []error
	for _, e := range equivalents {
		if !used[e] {
			errs = append(errs, fmt.Errorf("%s:%d: no mutant in %s survives %q: correct the entry, or remove it",
				e.Path, e.Line, e.In, e.Change))
		}
	}
	return left, explained, errors.Join(errs...)
}
