// Package mutation tests the unit tests: it puts small bugs into a package, one at a time, and looks whether a test
// fails. It writes all bugs of a package into one test binary, each behind a switch, so that the package is compiled
// once and each bug costs only a run of the tests that reach it:
//
//   - loadPackage reads a package and its types (load.go);
//   - weave finds the mutants of a file and writes them into it (weave.go; booleans.go, values.go and statements.go
//     have the operators, and switch.go.txt is what their code calls);
//   - a suite compiles the mutants and runs the tests on each (suite.go);
//   - marks explain mutants that no test can tell from the original (marks.go);
//   - the record holds the score, which may only rise (record.go).
package mutation

import "fmt"

// Mutant is a bug: a change of one place of a file.
type Mutant struct {
	// ID is the number by which the switch in the binary knows the mutant. The first has 1.
	ID int
	// File is the path of the file, relative to the root of the repository.
	File string
	// Line of the file.
	Line int
	// Change describes the bug, such as "never a < b".
	Change string
}

// String returns where the mutant is and what it changes.
func (m Mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Change) }
