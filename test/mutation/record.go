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

// Record has the tested packages and the results of their last run.
type Record struct {
	Packages []Package `json:"packages"`
}

// Package is a package whose unit tests are tested.
type Package struct {
	// Path is the path of the package, relative to the root of the repository.
	Path string `json:"path"`
	// Files are the files with mutants. Empty means all files of the package.
	Files []string `json:"files,omitempty"`
	// With are other packages whose unit tests also test this one. Empty means none.
	With []string `json:"with,omitempty"`
	// Behind is a package whose tests can detect mutants that the unit tests do not. Empty means none.
	Behind string `json:"behind,omitempty"`
	// Score is the result of the last run.
	Score `json:",inline"`
}

// Score is the result of a run.
type Score struct {
	// Mutants is the number of mutants, and Killed the number of mutants that a unit test detected.
	Mutants int `json:"mutants"`
	Killed  int `json:"killed"`
	// Explained is the number of mutants that no test can distinguish from the original.
	Explained int `json:"explained"`
	// Left maps a file to the number of its mutants that are neither killed nor explained.
	Left map[string]int `json:"left,omitempty"`
	// KilledBehind is the number of mutants in Left that the tests of Package.Behind detected. Nil means that these tests
	// have not run since the number of all mutants in Left changed.
	KilledBehind *int `json:"killedBehind,omitempty"`
}

// Percent returns the percentage of mutants that unit tests detected, rounded down to a tenth. Explained mutants do not
// count.
func (s Score) Percent() float64 {
	switch s.Mutants {
	case 0: // the package was never tested
		return 0
	case s.Explained:
		return 100
	}
	return float64(1000*s.Killed/(s.Mutants-s.Explained)) / 10
}

// left returns the number of mutants that are neither killed nor explained.
func (s Score) left() int {
	sum := 0
	for _, n := range s.Left {
		sum += n
	}
	return sum
}

// compare returns an error if the score is below the recorded score, or if more mutants of a file survive than
// recorded.
func (s Score) compare(recorded Score) error {
	var errs []error
	if s.Percent() < recorded.Percent() {
		errs = append(errs, fmt.Errorf("the score is %.1f %%, which is below the recorded %.1f %%",
			s.Percent(), recorded.Percent()))
	}
	for _, file := range slices.Sorted(maps.Keys(s.Left)) {
		if s.Left[file] > recorded.Left[file] {
			errs = append(errs, fmt.Errorf("%d mutants of %s survive, and %d are recorded: "+
				"write a test, or explain them in testdata/mutants.yaml", s.Left[file], file, recorded.Left[file]))
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

const recordComment = "# The packages that `make mutation` tests, and the results. " +
	"`make mutation RECORD=true` writes this file.\n" +
	"# The score must not fall, and the number of survivors of a file must not rise.\n"

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

// Table returns the record as a Markdown table.
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

// InDocument returns a document with its table replaced by the table of the record.
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
