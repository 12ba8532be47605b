package mutation

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Record is what is tested, and what the last run found.
type Record struct {
	Packages []Package `json:"packages"`
}

// Package is a package whose tests are tested.
type Package struct {
	// Path of the package, relative to the root of the repository.
	Path string `json:"path"`
	// Files with mutants. Empty means all of the package.
	Files []string `json:"files,omitempty"`
	// With are other packages whose unit tests are about this one, too. Empty means none.
	With []string `json:"with,omitempty"`
	// Behind is the package whose tests may notice what those of the package itself do not. Empty means none.
	Behind string `json:"behind,omitempty"`
	// Score of the last run.
	Score `json:",inline"`
}

// Score is the result of a run.
type Score struct {
	// Mutants is the number of bugs, and Killed the number of those that a unit test noticed.
	Mutants int `json:"mutants"`
	Killed  int `json:"killed"`
	// Explained is the number of mutants that no test can tell from the original.
	Explained int `json:"explained"`
	// Left is the number of the others by file.
	Left map[string]int `json:"left,omitempty"`
	// KilledBehind is how many of those that are left the tests of the package behind noticed. Nil means that these have
	// not run since.
	KilledBehind *int `json:"killedBehind,omitempty"`
}

// Percent returns how many of the mutants that can be noticed were noticed by unit tests, rounded down to a tenth.
func (s Score) Percent() float64 {
	switch s.Mutants {
	case 0: // it never ran
		return 0
	case s.Explained:
		return 100
	}
	return float64(1000*s.Killed/(s.Mutants-s.Explained)) / 10
}

// left returns how many mutants nothing noticed.
func (s Score) left() int {
	sum := 0
	for _, n := range s.Left {
		sum += n
	}
	return sum
}

// compare returns an error if a score is worse than the recorded one.
func (s Score) compare(recorded Score) error {
	var errs []error
	if s.Percent() < recorded.Percent() {
		errs = append(errs, fmt.Errorf("the score is %.1f %%, and it was %.1f %%", s.Percent(), recorded.Percent()))
	}
	for _, file := range slices.Sorted(maps.Keys(s.Left)) {
		if s.Left[file] > recorded.Left[file] {
			errs = append(errs, fmt.Errorf("%d mutants of %s survive, and there were %d: write a test, or explain them by %s",
				s.Left[file], file, recorded.Left[file], markPrefix))
		}
	}
	return errors.Join(errs...)
}

// ReadRecord reads a record from a file.
func ReadRecord(file string) (Record, error) {
	var r Record
	content, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := yaml.UnmarshalStrict(content, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w", file, err)
	}
	return r, nil
}

const recordComment = "# What `make mutation` changes, and what it found. It writes this file with RECORD=true.\n" +
	"# The score may only rise, and the number of survivors of a file may only fall.\n"

// Write writes a record to a file.
func (r Record) Write(file string) error {
	content, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(recordComment), content...), 0o644)
}

const tableHead = "| Package | Bugs | Found by unit tests | No test can find | Survive | " +
	"Of these, found by conformance | Score |\n" +
	"| --- | --- | --- | --- | --- | --- | --- |\n"

// Table returns the record as a table of a document.
func (r Record) Table() string {
	var table strings.Builder
	table.WriteString(tableHead)
	for _, p := range r.Packages {
		behind := "-"
		if p.KilledBehind != nil {
			behind = fmt.Sprint(*p.KilledBehind)
		}
		fmt.Fprintf(&table, "| `%s` | %d | %d | %d | %d | %s | %.1f %% |\n",
			p.Path, p.Mutants, p.Killed, p.Explained, p.left(), behind, p.Percent())
	}
	return table.String()
}

// InDocument returns a document with the table of the record instead of the one that it has.
func (r Record) InDocument(document string) (string, error) {
	before, after, found := strings.Cut(document, tableHead)
	if !found {
		return "", errors.New("the document has no table of the score")
	}
	for strings.HasPrefix(after, "| `") {
		_, after, _ = strings.Cut(after, "\n")
	}
	return before + r.Table() + after, nil
}
