// Package mutation tests unit tests. It puts small bugs, called mutants, into a package, one at a time, and checks
// whether a test fails. All mutants of a package are in one test binary, each behind a switch. So the package is
// compiled once, and each mutant only costs a run of the tests that reach it:
//
//   - loadPackage reads a package and its types (load.go);
//   - weave finds the mutants of a file and writes them into it (weave.go). The operators are in booleans.go, values.go
//     and statements.go. The code of mutants calls the functions in switch.go.txt;
//   - a suite compiles the mutants and runs the tests on each (suite.go);
//   - testdata/mutants.yaml of the package explains mutants that no test can distinguish from the original
//     (equivalents.go);
//   - the record holds the score, which must not fall (record.go).
package mutation

import "fmt"

// Mutant is a bug: a change of one place in a file.
type Mutant struct {
	// ID is the number with which the test binary switches the mutant on. The first mutant has the number 1.
	ID int
	// File is the path of the file, relative to the root of the repository.
	File string
	// Line is the line in the file.
	Line int
	// Change describes the bug, such as "never a < b".
	Change string
}

// String returns the position and the change of the mutant.
func (m Mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Change) }
