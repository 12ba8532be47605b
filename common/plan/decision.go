package plan

import (
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
)

// Decision describes what to do about a job. The controller first writes Status, if Status differs from the present
// status of the job and the write is not delayed. Then it makes the changes. So a failure is counted before the
// failed pod is deleted. If the controller crashes in between, no failure is lost or counted twice.
type Decision struct {
	decide.Facts
	status.Rendering
}
