package dependents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// The kind of a TensorBoard, and its name in the dependent status of a job.
const (
	tensorBoardKindName  = "TensorBoard"
	tensorBoardDependent = "tensorboard"
)

// tensorBoardTimeout is how long requests about a TensorBoard may take, so that no other job waits for them.
const tensorBoardTimeout = 10 * time.Second

// TensorBoards reads and writes the TensorBoards of jobs.
type TensorBoards struct {
	store[*tensorboardv1beta1.TensorBoard]

	held  *HeldChanges
	clock clock.PassiveClock
	retry time.Duration
}

// NewTensorBoards returns the TensorBoards of a cluster. The argument held remembers the changes that must wait. A
// rejected request is retried after the duration retry.
func NewTensorBoards(
	cluster Cluster, held *HeldChanges, clock clock.PassiveClock, retry time.Duration,
) *TensorBoards {
	return &TensorBoards{
		store: newStore(tensorBoardKind(), cluster),
		held:  held, clock: clock, retry: retry,
	}
}

// tensorBoardKind returns the description of the kind TensorBoard.
func tensorBoardKind() kind[*tensorboardv1beta1.TensorBoard] {
	return kind[*tensorboardv1beta1.TensorBoard]{
		name:      "tensorboard",
		newObject: func() *tensorboardv1beta1.TensorBoard { return &tensorboardv1beta1.TensorBoard{} },
		newList:   func() client.ObjectList { return &tensorboardv1beta1.TensorBoardList{} },
		reported: func(tensorBoard *tensorboardv1beta1.TensorBoard) any {
			return tensorBoardStatusOf(tensorBoard, nil)
		},
		strip:        stripTensorBoard,
		notInstalled: tensorBoardsNotInstalled,
	}
}

// stripTensorBoard removes the part of the status of a TensorBoard that the job controller does not read.
func stripTensorBoard(tensorBoard *tensorboardv1beta1.TensorBoard) {
	status := tensorboardv1beta1.TensorBoardStatus{Phase: tensorBoard.Status.Phase}
	if ready := tensorBoardReady(tensorBoard); ready.Type != "" {
		ready.LastProbeTime = nil
		status.Conditions = []tensorboardv1beta1.TensorBoardCondition{ready}
	}
	tensorBoard.Status = status
}

// tensorBoardsNotInstalled returns the problem of a job that needs a TensorBoard if the CRD is not installed.
func tensorBoardsNotInstalled(err error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the CustomResourceDefinition tensorboards.tensorstack.dev is not installed; "+
			"the job trains without TensorBoard until it is: %w", err)}
}

// TensorBoard is a snapshot of the TensorBoard of a job. It is empty for a job that neither needs nor has one.
type TensorBoard struct {
	view.Snapshot[*tensorboardv1beta1.TensorBoard]

	// Spec is the TensorBoard spec in the spec of the job. Nil means that the job needs no TensorBoard.
	Spec *tensorboardv1beta1.TensorBoardSpec
	// Status is the dependent status in the status of the job, as it was read. Nil means none.
	Status *batchv1beta1.DependentStatus
	// Held is the last change, which must not be repeated yet.
	Held HeldChange
}

// TensorBoardOf returns the spec and the status of the TensorBoard of a job. The result is empty if the kind of the job
// has no TensorBoards.
func TensorBoardOf(job framework.Job) TensorBoard {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		return TensorBoard{Spec: owner.TensorBoardSpec(), Status: owner.TensorBoardStatus()}
	}
	return TensorBoard{}
}

// SetTensorBoardStatus sets the dependent status of the TensorBoard in the status of a job.
func SetTensorBoardStatus(job framework.Job, status *batchv1beta1.DependentStatus) {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		owner.SetTensorBoardStatus(status)
	}
}

// Observe reads the TensorBoard of a job that needs one, or has one that it no longer needs. It reads nothing for other
// jobs.
func (t *TensorBoards) Observe(ctx context.Context, job framework.Job) TensorBoard {
	seen := TensorBoardOf(job)
	if seen.Spec == nil && seen.Status == nil || !job.GetDeletionTimestamp().IsZero() {
		return seen
	}
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	seen.Held = t.held.of(client.ObjectKeyFromObject(job))
	reader := t.APIReader // a stale cache could lack a TensorBoard that must be deleted
	if seen.Spec != nil {
		cached, problem := t.reader(ctx, job.GetNamespace())
		if cached == nil {
			seen.Unknown, seen.Problem = problem == nil, problem
			return seen
		}
		reader = cached
	}
	seen.Snapshot = t.read(ctx, reader, client.ObjectKeyFromObject(job))
	return seen
}

// Apply makes a change and returns the delay before the job is reconciled again. It never fails, because the training
// does not depend on the TensorBoard. If the change is rejected, Apply calls writeStatus with a status that has the
// reason.
func (t *TensorBoards) Apply(
	ctx context.Context, job framework.Job, change view.Change,
	writeStatus func(context.Context, *batchv1beta1.DependentStatus, []report.Event) error,
) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	wait, err := plan.CacheDelay, t.write(ctx, job, change)
	if change.Action == batchv1beta1.ActionUpdate && apierrors.IsConflict(err) {
		err = nil // the next reconcile sees the update of the other client
	}
	if problem := problemOf(change, err); problem != nil {
		wait, err = t.retry, nil
		before := cmp.Or(TensorBoardOf(job).Status, creatingTensorBoard())
		if after := refusedTensorBoard(before, problem); !equality.Semantic.DeepEqual(after, before) {
			err = writeStatus(ctx, after, tensorBoardEvents(before, after))
		}
	}
	_, notCached := errors.AsType[*owned.NotCachedError](err)
	switch {
	case apierrors.IsConflict(err):
		wait = conflictDelay
	case notCached:
		wait = t.retry // the cache will report it
	case err != nil:
		wait = retryDelay
		ctrllog.FromContext(ctx).Error(err, "Failed to change the TensorBoard of the job")
	}
	t.held.hold(client.ObjectKeyFromObject(job), HeldChange{Action: change.Action, Until: t.clock.Now().Add(wait)})
	return wait
}

// problemOf returns why a change was rejected. It returns nil if a retry can succeed.
func problemOf(change view.Change, err error) *report.RefusedError {
	var refused *report.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case !owned.IsRefused(err):
		return nil
	case change.Action == batchv1beta1.ActionUpdate:
		return &report.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: err}
	default:
		return &report.RefusedError{Reason: batchv1beta1.ReasonDeleteFailed, Err: err}
	}
}

// HeldChange is a change that was made or has failed, and that must not be repeated before a time.
type HeldChange struct {
	// Action is the action of the change, as in DependentStatus.Action.
	Action string
	// Until is the time before which the change must not be repeated.
	Until time.Time
}

// HeldChanges remembers the last change of the TensorBoard of each job. The zero value is empty and ready to use.
type HeldChanges struct {
	changes sync.Map // types.NamespacedName -> HeldChange
}

func (h *HeldChanges) of(job types.NamespacedName) HeldChange {
	if held, ok := h.changes.Load(job); ok {
		return held.(HeldChange) //nolint:forcetypeassert // only hold stores
	}
	return HeldChange{}
}

func (h *HeldChanges) hold(job types.NamespacedName, held HeldChange) { h.changes.Store(job, held) }

// Forget drops the change of a job.
func (h *HeldChanges) Forget(job types.NamespacedName) { h.changes.Delete(job) }

// TensorBoardDecision is the decision about the TensorBoard of a job. The change is made last, so that a problem with
// it never blocks the training.
type TensorBoardDecision struct {
	// Before is the status that the job has. Nil means none.
	Before *batchv1beta1.DependentStatus
	// Status is the status that the job must have. Nil means none.
	Status *batchv1beta1.DependentStatus
	// Change is the change to make.
	Change view.Change
	// Events are the events to emit after Status was written.
	Events []report.Event
	// WakeAt is when to reconcile the job again even if nothing happens. Zero means never.
	WakeAt time.Time
}

// ChangesStatus reports whether the decision changes the status of the job.
func (d *TensorBoardDecision) ChangesStatus() bool {
	return !equality.Semantic.DeepEqual(d.Before, d.Status)
}

// StatusMayWait reports whether the write of the status can be delayed. Changes that the TensorBoard controller reports
// can be delayed. Actions and warnings of the job controller are written immediately.
func (d *TensorBoardDecision) StatusMayWait() bool {
	if d.Before == nil || d.Status == nil {
		return d.Before == d.Status
	}
	return d.Before.Action == d.Status.Action && d.Before.Type == d.Status.Type
}

// Decide decides about the TensorBoard of a job. The dependent status is written before the TensorBoard is created, and
// removed after the TensorBoard is gone. If there is neither a spec nor a status, the controller does not read the
// TensorBoard.
func (t TensorBoard) Decide(job *view.Job, now time.Time) TensorBoardDecision {
	d := tensorBoardPlan{job: job, seen: t, now: now}
	d.Before, d.Status = t.Status, t.Status
	switch {
	case job.Deleting: // the TensorBoard is garbage collected
	case t.Spec != nil:
		d.provide()
	case t.Status != nil:
		d.remove()
	}
	d.Events = tensorBoardEvents(d.Before, d.Status)
	return d.TensorBoardDecision
}

// tensorBoardPlan fills in a decision.
type tensorBoardPlan struct {
	job  *view.Job
	seen TensorBoard
	now  time.Time

	TensorBoardDecision
}

// wakeIn sets when to reconcile the job again.
func (d *tensorBoardPlan) wakeIn(wait time.Duration) { d.WakeAt = d.now.Add(wait) }

// provide creates or updates the TensorBoard according to the spec of the job. After the end of the job was decided, it
// only reports the TensorBoard.
func (d *tensorBoardPlan) provide() {
	decided := d.job.Status.Decided()
	switch {
	case decided && d.Before == nil: // the job has never had one
	case d.seen.Unknown:
		d.Status = cmp.Or(d.Before, creatingTensorBoard())
		d.wakeIn(plan.CacheDelay)
	case d.seen.Problem != nil:
		d.Status = withoutTensorBoard(d.Before, d.seen.Problem)
		if !decided {
			d.wakeIn(d.job.DependentRetry)
		}
	case d.isOwn():
		d.follow(decided)
	case decided:
		if d.Before.Dependent != nil {
			d.Status = namedTensorBoard(batchv1beta1.DependentStatus{
				Action: d.Before.Action, Reason: batchv1beta1.ReasonDeleted,
				Note: "it was deleted after the job had finished", Type: corev1.EventTypeNormal,
			})
		}
	case d.seen.Object != nil:
		conflict := report.NameConflict(view.TheJob, "tensorboard "+d.job.Name, d.seen.Object)
		d.Status = withoutTensorBoard(d.Before, conflict)
		d.wakeIn(d.job.DependentRetry)
	default:
		if d.Before == nil || d.Before.Dependent != nil {
			d.Status = creatingTensorBoard() // a status with a problem stays until the TensorBoard exists
		}
		d.change(view.Change{
			Action: batchv1beta1.ActionCreate,
			Wanted: &tensorboardv1beta1.TensorBoard{ObjectMeta: d.job.MetaOfOwned(), Spec: *d.seen.Spec.DeepCopy()},
		})
	}
}

// follow reports the job's own TensorBoard, and updates it if its spec differs from the spec in the job.
func (d *tensorBoardPlan) follow(decided bool) {
	object := d.seen.Object
	status := tensorBoardStatusOf(object, d.Before)
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

// remove deletes the TensorBoard that the job no longer needs, and then removes its status.
func (d *tensorBoardPlan) remove() {
	switch {
	case d.seen.Unknown:
		d.wakeIn(plan.CacheDelay)
	case d.seen.Problem != nil:
		d.Status = withoutTensorBoard(d.Status, d.seen.Problem)
		d.wakeIn(d.job.DependentRetry)
	case !d.isOwn():
		d.Status = nil
	case d.seen.Object.DeletionTimestamp != nil:
		d.wakeIn(d.job.DependentRetry)
	default:
		d.change(view.Change{Action: batchv1beta1.ActionDelete, Seen: d.seen.Object})
	}
}

// change decides to make a change, unless the change is held.
func (d *tensorBoardPlan) change(change view.Change) {
	if held := d.seen.Held; held.Action == change.Action && d.now.Before(held.Until) {
		d.WakeAt = held.Until
		return
	}
	d.Change = change
	status := *d.Status
	status.Action = change.Action
	d.Status = &status
}

// isOwn reports whether the TensorBoard is the job's.
func (d *tensorBoardPlan) isOwn() bool {
	return d.seen.Object != nil && view.IsControlledBy(d.seen.Object, d.job.UID)
}

// namedTensorBoard returns the status with the name of the dependent.
func namedTensorBoard(status batchv1beta1.DependentStatus) *batchv1beta1.DependentStatus {
	status.Name = tensorBoardDependent
	return &status
}

// creatingTensorBoard returns the status of a TensorBoard that is about to be created.
func creatingTensorBoard() *batchv1beta1.DependentStatus {
	return namedTensorBoard(batchv1beta1.DependentStatus{
		Reason: batchv1beta1.ReasonCreating, Action: batchv1beta1.ActionCreate, Type: corev1.EventTypeNormal,
	})
}

// withoutTensorBoard returns the status of a TensorBoard that cannot be created or read.
func withoutTensorBoard(
	before *batchv1beta1.DependentStatus, problem *report.RefusedError,
) *batchv1beta1.DependentStatus {
	status := batchv1beta1.DependentStatus{}
	if before != nil {
		status.Action = before.Action
	}
	return refusedTensorBoard(namedTensorBoard(status), problem)
}

// refusedTensorBoard returns the status with the problem.
func refusedTensorBoard(
	before *batchv1beta1.DependentStatus, problem *report.RefusedError,
) *batchv1beta1.DependentStatus {
	status := *before
	status.Reason, status.Type = problem.Reason, corev1.EventTypeWarning
	status.Note = report.Truncated(problem.Error(), report.MaxNote)
	return &status
}

// tensorBoardStatusOf returns the dependent status of a TensorBoard. It follows the condition Ready.
func tensorBoardStatusOf(
	object *tensorboardv1beta1.TensorBoard, before *batchv1beta1.DependentStatus,
) *batchv1beta1.DependentStatus {
	ready := tensorBoardReady(object)
	status := namedTensorBoard(batchv1beta1.DependentStatus{
		Dependent: &corev1.ObjectReference{
			APIVersion: tensorboardv1beta1.GroupVersion.String(), Kind: tensorBoardKindName,
			Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
		Ready:  ready.Status == metav1.ConditionTrue,
		Reason: cmp.Or(ready.Reason, batchv1beta1.ReasonPending),
		Action: batchv1beta1.ActionCreate,
		Note:   report.Truncated(ready.Message, report.MaxNote),
		Type:   corev1.EventTypeNormal,
	})
	if object.Status.Phase == tensorboardv1beta1.TensorBoardFailed {
		status.Type = corev1.EventTypeWarning
	}
	if before != nil && before.Dependent != nil && before.Dependent.UID == object.UID {
		status.Action = cmp.Or(before.Action, status.Action)
	}
	return status
}

// tensorBoardReady returns the condition Ready of a TensorBoard, or an empty condition.
func tensorBoardReady(object *tensorboardv1beta1.TensorBoard) tensorboardv1beta1.TensorBoardCondition {
	for _, c := range object.Status.Conditions {
		if c.Type == tensorboardv1beta1.ConditionReady {
			return c
		}
	}
	return tensorboardv1beta1.TensorBoardCondition{}
}

// tensorBoardEvents returns an event if the status has a new warning.
func tensorBoardEvents(before, after *batchv1beta1.DependentStatus) []report.Event {
	isNew := before == nil || after == nil || before.Type != after.Type || before.Reason != after.Reason
	if after == nil || after.Type != corev1.EventTypeWarning || !isNew {
		return nil
	}
	return []report.Event{{
		Type: after.Type, Reason: after.Reason, Action: cmp.Or(after.Action, batchv1beta1.ActionCreate),
		Message: "TensorBoard: " + after.Note,
	}}
}
