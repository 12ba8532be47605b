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
	"tensorstack.dev/jobs/common/report"
)

// The kind of a TensorBoard, and its name among the dependents of a job.
const (
	tensorBoardKindName  = "TensorBoard"
	tensorBoardDependent = "tensorboard"
)

// tensorBoardTimeout ends a request about a TensorBoard that is not answered, so that no other job waits for it.
const tensorBoardTimeout = 10 * time.Second

// TensorBoards reads and writes the TensorBoards of jobs.
type TensorBoards struct {
	store[*tensorboardv1beta1.TensorBoard]

	held  *HeldChanges
	clock clock.PassiveClock
	retry time.Duration
}

// NewTensorBoards returns the TensorBoards of a cluster. Held remembers the changes that must wait. What was refused is
// tried again after the time of retry.
func NewTensorBoards(
	cluster Cluster, held *HeldChanges, clock clock.PassiveClock, retry time.Duration,
) *TensorBoards {
	return &TensorBoards{
		store: store[*tensorboardv1beta1.TensorBoard]{kind: tensorBoardKind(), Cluster: cluster},
		held:  held, clock: clock, retry: retry,
	}
}

// tensorBoardKind is the kind of TensorBoards.
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

// stripTensorBoard keeps of the status of a TensorBoard what the job controller reads.
func stripTensorBoard(tensorBoard *tensorboardv1beta1.TensorBoard) {
	status := tensorboardv1beta1.TensorBoardStatus{Phase: tensorBoard.Status.Phase}
	if ready := tensorBoardReady(tensorBoard); ready.Type != "" {
		ready.LastProbeTime = nil
		status.Conditions = []tensorboardv1beta1.TensorBoardCondition{ready}
	}
	tensorBoard.Status = status
}

// tensorBoardsNotInstalled returns the problem of a job that can have no TensorBoard, since the CRD is missing.
func tensorBoardsNotInstalled(err error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the CustomResourceDefinition tensorboards.tensorstack.dev is not installed; "+
			"the job trains without TensorBoard until it is: %w", err)}
}

// TensorBoard is what is known of the TensorBoard of a job. It is empty for a job that neither wants nor has one.
type TensorBoard struct {
	View[*tensorboardv1beta1.TensorBoard]

	// Spec that the job wants. Nil means that the job wants no TensorBoard.
	Spec *tensorboardv1beta1.TensorBoardSpec
	// Status in the status of the job, as it was read. Nil means none.
	Status *batchv1beta1.DependentStatus
	// Held is a change that must wait.
	Held HeldChange
}

// TensorBoardOf returns what a job wants of its TensorBoard and what its status tells about it. It is empty for a kind
// of jobs that has none.
func TensorBoardOf(job framework.Job) TensorBoard {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		return TensorBoard{Spec: owner.TensorBoardSpec(), Status: owner.TensorBoardStatus()}
	}
	return TensorBoard{}
}

// SetTensorBoardStatus sets what the status of a job tells about its TensorBoard.
func SetTensorBoardStatus(job framework.Job, status *batchv1beta1.DependentStatus) {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		owner.SetTensorBoardStatus(status)
	}
}

// Observe reads the TensorBoard of a job that wants one, or has one that it no longer wants. It reads nothing for other
// jobs.
func (t *TensorBoards) Observe(ctx context.Context, job framework.Job) TensorBoard {
	seen := TensorBoardOf(job)
	if seen.Spec == nil && seen.Status == nil || !job.GetDeletionTimestamp().IsZero() {
		return seen
	}
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	seen.Held = t.held.of(client.ObjectKeyFromObject(job))
	reader := t.APIReader // the last read of one that is not wanted: a cache that lags would leave it behind
	if seen.Spec != nil {
		cached, problem := t.reader(ctx, job.GetNamespace())
		if cached == nil {
			seen.Unknown, seen.Problem = problem == nil, problem
			return seen
		}
		reader = cached
	}
	seen.View = t.read(ctx, reader, job)
	return seen
}

// Apply makes a change and returns how long to wait until the job is reconciled again. It never fails, since the
// training does not depend on it. If the change is refused, Apply calls writeStatus with the status that tells why.
func (t *TensorBoards) Apply(
	ctx context.Context, job framework.Job, change plan.Change,
	writeStatus func(context.Context, *batchv1beta1.DependentStatus, []report.Event) error,
) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	wait, err := plan.CacheDelay, t.write(ctx, job, change)
	if change.Action == batchv1beta1.ActionUpdate && apierrors.IsConflict(err) {
		err = nil // the next reconcile sees the update of somebody else
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
		ctrllog.FromContext(ctx).Error(err, "changing the TensorBoard of the job")
	}
	t.held.hold(client.ObjectKeyFromObject(job), HeldChange{Action: change.Action, Until: t.clock.Now().Add(wait)})
	return wait
}

// problemOf returns why a change was refused. It returns nil for a failure if another attempt can succeed.
func problemOf(change plan.Change, err error) *report.RefusedError {
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

// HeldChange is a change that was made, or that failed, and is not to be made again before a time.
type HeldChange struct {
	// Action of the change, as DependentStatus.Action names it.
	Action string
	// Until is when the change may be made again.
	Until time.Time
}

// HeldChanges remembers, for each job, the last change of its TensorBoard. The zero value remembers none.
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

// Forget drops what is remembered of a job.
func (h *HeldChanges) Forget(job types.NamespacedName) { h.changes.Delete(job) }

// TensorBoardDecision is what to do about the TensorBoard of a job. The change is made last, so that a problem with it
// never blocks the training.
type TensorBoardDecision struct {
	// Before is the status that the job has, Status the one that it needs. Nil means none.
	Before, Status *batchv1beta1.DependentStatus
	// Change to make.
	Change plan.Change
	// Events to emit after Status is written.
	Events []report.Event
	// WakeAt is when to reconcile the job again even if nothing happens. Zero means never.
	WakeAt time.Time
}

// ChangesStatus reports whether the decision changes the status of the job.
func (d *TensorBoardDecision) ChangesStatus() bool {
	return !equality.Semantic.DeepEqual(d.Before, d.Status)
}

// StatusMayWait reports whether the status changes only in what the TensorBoard controller reports. What the job
// controller does about the TensorBoard is written immediately.
func (d *TensorBoardDecision) StatusMayWait() bool {
	if d.Before == nil || d.Status == nil {
		return d.Before == d.Status
	}
	return d.Before.Action == d.Status.Action && d.Before.Type == d.Status.Type
}

// Decide decides about the TensorBoard of a job. The status of the job names the TensorBoard before it is created and
// until it is gone. Without a status the controller does not look for one.
func (t TensorBoard) Decide(job *plan.Job, now time.Time) TensorBoardDecision {
	d := tensorBoardPlan{job: job, seen: t, now: now}
	d.Before, d.Status = t.Status, t.Status
	switch {
	case job.Deleting: // it is garbage collected
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
	job  *plan.Job
	seen TensorBoard
	now  time.Time

	TensorBoardDecision
}

// wakeIn sets when to reconcile the job again.
func (d *tensorBoardPlan) wakeIn(wait time.Duration) { d.WakeAt = d.now.Add(wait) }

// provide creates or updates the TensorBoard as the job wants it. Once the end of the job is decided, it only reports
// the TensorBoard.
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
		conflict := report.NameConflict(plan.TheJob, "tensorboard "+d.job.Name, d.seen.Object)
		d.Status = withoutTensorBoard(d.Before, conflict)
		d.wakeIn(d.job.DependentRetry)
	default:
		if d.Before == nil || d.Before.Dependent != nil {
			d.Status = creatingTensorBoard() // otherwise the status keeps the problem until the TensorBoard exists
		}
		d.change(plan.Change{
			Action: batchv1beta1.ActionCreate,
			Wanted: &tensorboardv1beta1.TensorBoard{ObjectMeta: d.job.MetaOfOwned(), Spec: *d.seen.Spec.DeepCopy()},
		})
	}
}

// follow reports the job's own TensorBoard, and updates it if the job wants another.
func (d *tensorBoardPlan) follow(decided bool) {
	object := d.seen.Object
	status := tensorBoardStatusOf(object, d.Before)
	d.Status = status
	if object.DeletionTimestamp != nil {
		status.Ready, status.Reason, status.Note = false, batchv1beta1.ReasonDeleted, "it is being deleted"
		return
	}
	spec := *d.seen.Spec.DeepCopy()
	spec.Suspend = object.Spec.Suspend // its users and its own controller decide that
	if decided || equality.Semantic.DeepEqual(spec, object.Spec) {
		return
	}
	wanted := object.DeepCopy()
	wanted.Spec = spec
	if d.Before != nil && d.Before.Reason == batchv1beta1.ReasonUpdateFailed {
		status.Reason, status.Note, status.Type = d.Before.Reason, d.Before.Note, d.Before.Type
	}
	d.change(plan.Change{Action: batchv1beta1.ActionUpdate, Seen: object, Wanted: wanted})
}

// remove deletes the TensorBoard that the job no longer wants, and then forgets it.
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
		d.change(plan.Change{Action: batchv1beta1.ActionDelete, Seen: d.seen.Object})
	}
}

// change decides on a change, once it may be tried.
func (d *tensorBoardPlan) change(change plan.Change) {
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
	return d.seen.Object != nil && plan.IsControlledBy(d.seen.Object, d.job.UID)
}

// namedTensorBoard returns a status with the name of the dependent.
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

// withoutTensorBoard returns the status of a TensorBoard that cannot be had.
func withoutTensorBoard(
	before *batchv1beta1.DependentStatus, problem *report.RefusedError,
) *batchv1beta1.DependentStatus {
	status := batchv1beta1.DependentStatus{}
	if before != nil {
		status.Action = before.Action
	}
	return refusedTensorBoard(namedTensorBoard(status), problem)
}

// refusedTensorBoard returns the status of a TensorBoard with why a change of it could not be made.
func refusedTensorBoard(
	before *batchv1beta1.DependentStatus, problem *report.RefusedError,
) *batchv1beta1.DependentStatus {
	status := *before
	status.Reason, status.Type = problem.Reason, corev1.EventTypeWarning
	status.Note = report.Truncated(problem.Error(), report.MaxNote)
	return &status
}

// tensorBoardStatusOf returns the status of a TensorBoard, which follows its condition Ready.
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

// tensorBoardReady returns the condition Ready of a TensorBoard, or an empty one.
func tensorBoardReady(object *tensorboardv1beta1.TensorBoard) tensorboardv1beta1.TensorBoardCondition {
	for _, c := range object.Status.Conditions {
		if c.Type == tensorboardv1beta1.ConditionReady {
			return c
		}
	}
	return tensorboardv1beta1.TensorBoardCondition{}
}

// tensorBoardEvents returns the event of a warning, once, when the warning is new.
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
