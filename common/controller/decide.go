package controller

import (
	"slices"
	"time"

	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// decision is the decision about a job and its TensorBoard.
type decision struct {
	plan.Decision

	tensorBoard tensorboard.Decision
}

// decideAll decides about the job and about its TensorBoard. The decision about the job does not consider the
// TensorBoard, because the training does not depend on it.
func decideAll(job view.Job, seen observation, now time.Time) decision {
	d := decision{Decision: plan.Decide(job, seen.Observation, now)}
	if d.DeleteJob || !job.Spec.RunsHere() {
		return d
	}
	d.tensorBoard = seen.tensorBoard.Decide(&job, now)
	d.Events = slices.Concat(d.tensorBoard.Events, d.Events)
	d.RequeueAt = policy.Earlier(d.RequeueAt, d.tensorBoard.RequeueAt)
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

// statusDelay returns how long the status write can be delayed to batch it with later changes. The delay is at most
// the given interval.
func (d *decision) statusDelay(job view.Job, interval time.Duration) time.Duration {
	if !d.tensorBoard.StatusMayWait() {
		return 0
	}
	return plan.StatusDelay(job, d.Decision, interval)
}
