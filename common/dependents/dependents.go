// Package dependents has the objects that a job owns besides its pods, and that another controller acts on: its
// PodGroup and its TensorBoard. Each kind is one file. The file tells which parts of an object the job reads, which
// object the job wants, how to get there, and what the status of the job reports. All kinds are watched (watch.go), and
// read and written (store.go), in the same way. Either kind may not be installed.
//
// Decisions are pure functions, as those of package plan are.
package dependents

import (
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// View is what is known of an object that a job owns.
type View[T plan.Object] struct {
	// Object of the job's name, whoever owns it. Nil means that there is none.
	Object T
	// Unknown reports whether the controller does not know yet what exists.
	Unknown bool
	// Problem is why it cannot be known. Nil means no problem.
	Problem *report.RefusedError
}
