// Package tensorboard decides about the TensorBoard of a job. The training does not depend on the TensorBoard.
// Package dependents reads and writes TensorBoards.
package tensorboard

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Seen is a snapshot of the TensorBoard of a job. It is empty for a job that neither needs nor has one.
type Seen struct {
	view.Snapshot[*tensorboardv1beta1.TensorBoard]

	// Spec is the TensorBoard spec in the spec of the job. Nil means that the job needs no TensorBoard.
	Spec *tensorboardv1beta1.TensorBoardSpec
	// Status is the dependent status in the status of the job, as it was read. Nil means none.
	Status *batchv1beta1.DependentStatus
	// Delayed is a change that must not be repeated yet. The zero value means that no change is delayed.
	Delayed DelayedChange
}

// Of returns the snapshot before the TensorBoard is read: it has only the TensorBoard spec and the dependent status
// from the job. It is empty if the kind of the job has no TensorBoards.
func Of(job framework.Job) Seen {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		return Seen{Spec: owner.TensorBoardSpec(), Status: owner.TensorBoardStatus()}
	}
	return Seen{}
}

// SetStatus sets the dependent status of the TensorBoard in the status of a job.
func SetStatus(job framework.Job, status *batchv1beta1.DependentStatus) {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		owner.SetTensorBoardStatus(status)
	}
}

// DelayedChange is a change that was made or has failed, and that must not be repeated yet.
type DelayedChange struct {
	// Action is the action of the change, as in DependentStatus.Action.
	Action string
	// Until is the time before which the change must not be repeated.
	Until time.Time
}

// Decision is the decision about the TensorBoard of a job. The controller makes Change after all other changes, so
// that a problem with the TensorBoard never blocks the training.
type Decision struct {
	// Before is the present dependent status of the TensorBoard. Nil means none.
	Before *batchv1beta1.DependentStatus
	// Status is the new dependent status of the TensorBoard. Nil means that the job must have none.
	Status *batchv1beta1.DependentStatus
	// Change is the change to make.
	Change view.Change
	// Events are the events to emit after Status is written.
	Events []report.Event
	// RequeueAt is when to reconcile the job again even if nothing happens. Zero means never.
	RequeueAt time.Time
}

// ChangesStatus reports whether the decision changes the status of the job.
func (d *Decision) ChangesStatus() bool {
	return !equality.Semantic.DeepEqual(d.Before, d.Status)
}

// StatusMayWait reports whether the write of the status can be delayed. If the status is new or removed, if its
// action changes, or if a warning begins or ends, it is written immediately. Other changes can be delayed.
func (d *Decision) StatusMayWait() bool {
	if d.Before == nil || d.Status == nil {
		return d.Before == d.Status
	}
	return d.Before.Action == d.Status.Action && d.Before.Type == d.Status.Type
}

// Decide decides about the TensorBoard of a job. The dependent status is written before the TensorBoard is created,
// and removed after the TensorBoard is gone. If there is neither a spec nor a status, the controller does not read
// the TensorBoard and changes nothing.
func (t Seen) Decide(job *view.Job, now time.Time) Decision {
	d := steps{job: job, seen: t, now: now}
	d.Before, d.Status = t.Status, t.Status
	switch {
	case job.Deleting: // the TensorBoard is garbage collected
	case t.Spec != nil:
		d.provide()
	case t.Status != nil:
		d.remove()
	}
	d.Events = Events(d.Before, d.Status)
	return d.Decision
}

// steps fills in a decision.
type steps struct {
	job  *view.Job
	seen Seen
	now  time.Time

	Decision
}

// requeueIn sets when to reconcile the job again.
func (d *steps) requeueIn(wait time.Duration) { d.RequeueAt = d.now.Add(wait) }

// provide decides to create or update the TensorBoard according to the spec of the job. Once the end of the job is
// decided, provide only reports the state of the TensorBoard.
func (d *steps) provide() {
	decided := d.job.Status.Decided()
	switch {
	case decided && d.Before == nil: // the job has never had a TensorBoard
	case d.seen.Unknown:
		d.Status = cmp.Or(d.Before, Creating())
		d.requeueIn(view.CacheDelay)
	case d.seen.Problem != nil:
		d.Status = without(d.Before, d.seen.Problem)
		if !decided {
			d.requeueIn(d.job.DependentRetry)
		}
	case d.isOwn():
		d.follow(decided)
	case decided:
		if d.Before.Dependent != nil {
			d.Status = named(batchv1beta1.DependentStatus{
				Action: d.Before.Action, Reason: batchv1beta1.ReasonDeleted,
				Note: "it was deleted after the job had finished", Type: corev1.EventTypeNormal,
			})
		}
	case d.seen.Object != nil:
		conflict := report.NameConflict(view.TheJob, "tensorboard "+d.job.Name, d.seen.Object)
		d.Status = without(d.Before, conflict)
		d.requeueIn(d.job.DependentRetry)
	default:
		if d.Before == nil || d.Before.Dependent != nil {
			d.Status = Creating() // a status with a problem stays until the TensorBoard exists
		}
		d.change(view.Change{
			Action: batchv1beta1.ActionCreate,
			Wanted: &tensorboardv1beta1.TensorBoard{ObjectMeta: d.job.MetaOfOwned(), Spec: *d.seen.Spec.DeepCopy()},
		})
	}
}

// follow reports the state of the TensorBoard that the job controls. If the spec of the TensorBoard differs from the
// spec in the job, follow decides to update the TensorBoard.
func (d *steps) follow(decided bool) {
	object := d.seen.Object
	status := StatusOf(object, d.Before)
	d.Status = status
	if object.DeletionTimestamp != nil {
		status.Ready, status.Reason, status.Note = false, batchv1beta1.ReasonDeleted, "it is being deleted"
		return
	}
	spec := *d.seen.Spec.DeepCopy()
	spec.Suspend = object.Spec.Suspend // the users of the TensorBoard and its controller set this field
	if decided || equality.Semantic.DeepEqual(spec, object.Spec) {
		return
	}
	wanted := object.DeepCopy()
	wanted.Spec = spec
	if d.Before != nil && d.Before.Reason == batchv1beta1.ReasonUpdateFailed {
		status.Reason, status.Note, status.Type = d.Before.Reason, d.Before.Note, d.Before.Type
	}
	d.change(view.Change{Action: batchv1beta1.ActionUpdate, Seen: object, Wanted: wanted})
}

// remove decides to delete the TensorBoard that the job no longer needs. Once the job controls no TensorBoard, remove
// decides to remove the dependent status.
func (d *steps) remove() {
	switch {
	case d.seen.Unknown:
		d.requeueIn(view.CacheDelay)
	case d.seen.Problem != nil:
		d.Status = without(d.Status, d.seen.Problem)
		d.requeueIn(d.job.DependentRetry)
	case !d.isOwn():
		d.Status = nil
	case d.seen.Object.DeletionTimestamp != nil:
		d.requeueIn(d.job.DependentRetry)
	default:
		d.change(view.Change{Action: batchv1beta1.ActionDelete, Seen: d.seen.Object})
	}
}

// change decides to make a change, unless the change is delayed.
func (d *steps) change(change view.Change) {
	if delayed := d.seen.Delayed; delayed.Action == change.Action && d.now.Before(delayed.Until) {
		d.RequeueAt = delayed.Until
		return
	}
	d.Change = change
	status := *d.Status
	status.Action = change.Action
	d.Status = &status
}

// isOwn reports whether the job controls the TensorBoard.
func (d *steps) isOwn() bool {
	return d.seen.Object != nil && view.IsControlledBy(d.seen.Object, d.job.UID)
}
