package controller

import (
	"slices"
	"time"

	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
)

// decision is the decision about a job and its TensorBoard.
type decision struct {
	plan.Decision

	tensorBoard tensorboard.Decision
}

// decideAll decides about the job and, separately, about its TensorBoard. The training does not depend on the
// TensorBoard.
func decideAll(job view.Job, seen observation, now time.Time) decision {
	d := decision{Decision: plan.Decide(job, seen.Observation, now)}
	if d.DeleteJob || !job.Spec.RunsHere() {
		return d
	}
	d.tensorBoard = seen.tensorBoard.Decide(&job, now)
	d.Events = slices.Concat(d.tensorBoard.Events, d.Events)
	if wake := d.tensorBoard.WakeAt; d.WakeAt.IsZero() || !wake.IsZero() && wake.Before(d.WakeAt) {
		d.WakeAt = wake
	}
	return d
}

// changesObjects reports whether the decision changes objects other than the job.
func (d *decision) changesObjects() bool {
	return d.ChangesObjects() || d.tensorBoard.Change.Action != ""
}

// changesStatus reports whether the decision changes the status of the job.
func (d *decision) changesStatus(job view.Job) bool {
	return plan.ChangesStatus(job, d.Decision) || d.tensorBoard.ChangesStatus()
}

// statusDelay returns how long the status can be batched with later changes, at most for the given interval.
func (d *decision) statusDelay(job view.Job, interval time.Duration) time.Duration {
	if !d.tensorBoard.StatusMayWait() {
		return 0
	}
	return plan.StatusDelay(job, d.Decision, interval)
}
