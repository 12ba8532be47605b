package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
)

// tensorBoardKind and tensorBoardDependent are the kind of a TensorBoard and its name among the dependents of a job.
const (
	tensorBoardKind      = "TensorBoard"
	tensorBoardDependent = "tensorboard"
)

// tensorBoardTimeout ends a request about a TensorBoard that is not answered, so that no other job waits for it.
const tensorBoardTimeout = 10 * time.Second

// tensorBoardView is what there is of a job's TensorBoard.
type tensorBoardView struct {
	// Object of the job's name, whosever it is; nil if there is none.
	Object *tensorboardv1beta1.TensorBoard
	// Unknown says that it is not known yet what there is.
	Unknown bool
	// Problem says why it is not known, nil if it is.
	Problem *owned.RefusedError
	// Held is a change that must wait.
	Held heldChange
}

// heldChange is a change that was made, or that failed, and is not to be made again before a time.
type heldChange struct {
	// Change as DependentStatus.Action names it.
	Change string
	Until  time.Time
}

// tensorBoardDecision is what to do about the TensorBoard of a job.
type tensorBoardDecision struct {
	// Status is what the job's status is to say of it, nil for nothing.
	Status *batchv1beta1.DependentStatus
	// Change to make, as DependentStatus.Action names it; empty for none.
	Change string
	// Object to change, as it was seen; nil if it is to be created.
	Object *tensorboardv1beta1.TensorBoard
}

// planTensorBoard decides about the TensorBoard of the job, and about nothing else. The status says that there is to be one before
// it is created, and says so until it is gone: without a status there is none to look for.
func (p *planner) planTensorBoard() {
	before := p.job.TensorBoardStatus
	d := &p.decision.TensorBoard
	d.Status = before
	switch {
	case p.job.Deleting: // it is garbage collected
	case p.job.TensorBoardSpec != nil:
		p.provideTensorBoard()
	case before != nil:
		p.removeTensorBoard()
	}
	p.decision.Events = append(p.decision.Events, tensorBoardEvents(before, d.Status)...)
}

// provideTensorBoard lets the job have its TensorBoard. That of a finished job is only looked at.
func (p *planner) provideTensorBoard() {
	view, d, before := p.seen.TensorBoard, &p.decision.TensorBoard, p.job.TensorBoardStatus
	finished := p.job.Status.Finished()
	switch {
	case finished && before == nil: // the job has never had one
	case view.Unknown:
		if before == nil {
			d.Status = creating()
		}
		p.wakeAt(p.now.Add(cacheDelay))
	case view.Problem != nil:
		d.Status = withoutObject(before, view.Problem)
		if !finished {
			p.wakeAt(p.now.Add(p.job.DependentRetry))
		}
	case p.isOwn(view.Object):
		p.followTensorBoard(finished)
	case finished:
		if before.Dependent != nil {
			d.Status = named(batchv1beta1.DependentStatus{
				Action: before.Action, Reason: batchv1beta1.ReasonDeleted, Note: "it was deleted after the job had finished", Type: corev1.EventTypeNormal,
			})
		}
	case view.Object != nil:
		d.Status = withoutObject(before, owned.NameConflict(theJob, "tensorboard "+p.job.Name))
		p.wakeAt(p.now.Add(p.job.DependentRetry))
	default:
		if before == nil || before.Dependent != nil {
			d.Status = creating() // else what stood in the way stays to be read until it is there
		}
		p.changeTensorBoard(batchv1beta1.ActionCreate)
	}
}

// followTensorBoard lets the status say how the TensorBoard is, and the TensorBoard be as the job wants it.
func (p *planner) followTensorBoard(finished bool) {
	object, d, before := p.seen.TensorBoard.Object, &p.decision.TensorBoard, p.job.TensorBoardStatus
	status := statusOf(object, before)
	d.Status = status
	switch {
	case object.DeletionTimestamp != nil:
		status.Ready, status.Reason, status.Note = false, batchv1beta1.ReasonDeleted, "it is being deleted"
	case finished:
	case !equality.Semantic.DeepEqual(wanted(p.job.TensorBoardSpec, object), object.Spec):
		if before != nil && before.Reason == batchv1beta1.ReasonUpdateFailed {
			status.Reason, status.Note, status.Type = before.Reason, before.Note, before.Type
		}
		p.changeTensorBoard(batchv1beta1.ActionUpdate)
	}
}

// removeTensorBoard deletes the TensorBoard that the job no longer wants, and then forgets it.
func (p *planner) removeTensorBoard() {
	view, d := p.seen.TensorBoard, &p.decision.TensorBoard
	switch {
	case view.Unknown:
		p.wakeAt(p.now.Add(cacheDelay))
	case view.Problem != nil:
		d.Status = withoutObject(d.Status, view.Problem)
		p.wakeAt(p.now.Add(p.job.DependentRetry))
	case !p.isOwn(view.Object):
		d.Status = nil
	case view.Object.DeletionTimestamp != nil:
		p.wakeAt(p.now.Add(p.job.DependentRetry))
	default:
		p.changeTensorBoard(batchv1beta1.ActionDelete)
	}
}

// changeTensorBoard decides on a change, once it may be tried.
func (p *planner) changeTensorBoard(change string) {
	d := &p.decision.TensorBoard
	if held := p.seen.TensorBoard.Held; held.Change == change && p.now.Before(held.Until) {
		p.wakeAt(held.Until)
		return
	}
	d.Change, d.Object = change, p.seen.TensorBoard.Object
	status := *d.Status
	status.Action = change
	d.Status = &status
}

// isOwn says that a TensorBoard is the job's.
func (p *planner) isOwn(object *tensorboardv1beta1.TensorBoard) bool {
	return object != nil && p.controls(object)
}

// controls says that the job controls an object.
func (p *planner) controls(object metav1.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == p.job.UID
}

// wanted returns the spec that a TensorBoard is to have. Whether it is suspended is up to its users and its own controller.
func wanted(spec *tensorboardv1beta1.TensorBoardSpec, object *tensorboardv1beta1.TensorBoard) tensorboardv1beta1.TensorBoardSpec {
	want := *spec.DeepCopy()
	want.Suspend = object.Spec.Suspend
	return want
}

func named(status batchv1beta1.DependentStatus) *batchv1beta1.DependentStatus {
	status.Name = tensorBoardDependent
	return &status
}

// creating is the status of a TensorBoard that is about to be created.
func creating() *batchv1beta1.DependentStatus {
	return named(batchv1beta1.DependentStatus{
		Reason: batchv1beta1.ReasonCreating, Action: batchv1beta1.ActionCreate, Type: corev1.EventTypeNormal,
	})
}

// withoutObject says why there is no TensorBoard to speak of.
func withoutObject(before *batchv1beta1.DependentStatus, problem *owned.RefusedError) *batchv1beta1.DependentStatus {
	status := batchv1beta1.DependentStatus{Reason: problem.Reason, Note: control.Truncated(problem.Error(), control.MaxNote), Type: corev1.EventTypeWarning}
	if before != nil {
		status.Action = before.Action
	}
	return named(status)
}

// statusOf says how a TensorBoard is, by its condition Ready.
func statusOf(object *tensorboardv1beta1.TensorBoard, before *batchv1beta1.DependentStatus) *batchv1beta1.DependentStatus {
	ready := readyCondition(object)
	status := named(batchv1beta1.DependentStatus{
		Dependent: &corev1.ObjectReference{
			APIVersion: tensorboardv1beta1.GroupVersion.String(), Kind: tensorBoardKind,
			Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
		Ready:  ready.Status == metav1.ConditionTrue,
		Reason: cmp.Or(ready.Reason, batchv1beta1.ReasonPending),
		Action: batchv1beta1.ActionCreate,
		Note:   control.Truncated(ready.Message, control.MaxNote),
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

// readyCondition returns the condition Ready of a TensorBoard, or an empty one.
func readyCondition(object *tensorboardv1beta1.TensorBoard) tensorboardv1beta1.TensorBoardCondition {
	for _, c := range object.Status.Conditions {
		if c.Type == tensorboardv1beta1.ConditionReady {
			return c
		}
	}
	return tensorboardv1beta1.TensorBoardCondition{}
}

// tensorBoardEvents tell of a warning once, when it comes up.
func tensorBoardEvents(before, after *batchv1beta1.DependentStatus) []event {
	isNew := before == nil || after == nil || before.Type != after.Type || before.Reason != after.Reason
	if after == nil || after.Type != corev1.EventTypeWarning || !isNew {
		return nil
	}
	return []event{{
		Type: after.Type, Reason: after.Reason, Action: cmp.Or(after.Action, batchv1beta1.ActionCreate), Message: "TensorBoard: " + after.Note,
	}}
}

// onlyFollowsTensorBoard says that two statuses of a TensorBoard differ in nothing but how it does. What the controller does about it
// is written at once.
func onlyFollowsTensorBoard(a, b *batchv1beta1.DependentStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Action == b.Action && a.Type == b.Type
}

// tensorBoardOf returns what a job wants of its TensorBoard and what its status says of it, both nil for a kind that has none.
func tensorBoardOf(job framework.Job) (*tensorboardv1beta1.TensorBoardSpec, *batchv1beta1.DependentStatus) {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		return owner.TensorBoardSpec(), owner.TensorBoardStatus()
	}
	return nil, nil
}

func setTensorBoardStatus(job framework.Job, status *batchv1beta1.DependentStatus) {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		owner.SetTensorBoardStatus(status)
	}
}

// observeTensorBoard reads the TensorBoard of a job that wants one, or has one that it no longer wants. For other jobs it does nothing.
func (r *Reconciler[J]) observeTensorBoard(ctx context.Context, job J) tensorBoardView {
	spec, status := tensorBoardOf(job)
	if spec == nil && status == nil || !job.GetDeletionTimestamp().IsZero() {
		return tensorBoardView{}
	}
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	view := tensorBoardView{Held: r.options.Memory.heldTensorBoard(client.ObjectKeyFromObject(job))}
	var reader client.Reader = r.client
	switch {
	case spec == nil:
		reader = r.apiReader // the last look at it: a cache that lags would leave it behind
	case r.tensorBoards != nil:
		reader, view.Problem = r.tensorBoards.reader(ctx, job.GetNamespace())
		if reader == nil {
			view.Unknown = view.Problem == nil
			return view
		}
	}
	object := &tensorboardv1beta1.TensorBoard{}
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(job), object, client.DisableReadYourWritesConsistency); {
	case err == nil:
		view.Object = object
	case isNotFoundOrNotInstalled(err):
	case owned.IsRefused(err):
		view.Problem = &owned.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading tensorboard %s: %w", job.GetName(), err)}
	default:
		view.Unknown = true
	}
	return view
}

// isNotFoundOrNotInstalled says that there is no such object, or not even its kind.
func isNotFoundOrNotInstalled(err error) bool {
	var noKind *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	return apierrors.IsNotFound(err) || errors.As(err, &noKind) || errors.As(err, &noResource)
}

// tensorBoardsNotInstalled says that TensorBoards cannot be had, whatever the job wants.
func tensorBoardsNotInstalled(err error) *owned.RefusedError {
	return &owned.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the CustomResourceDefinition tensorboards.tensorstack.dev is not installed; the job trains without TensorBoard until it is: %w", err)}
}

// changeTensorBoard makes a change and returns when to look at the job again. It never fails, since the training does not depend on
// it: what went wrong is written into the status.
func (r *Reconciler[J]) changeTensorBoard(ctx context.Context, job J, d tensorBoardDecision) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	wait, err := cacheDelay, r.writeTensorBoard(ctx, job, d)
	if problem := tensorBoardProblem(d.Change, err); problem != nil {
		wait, err = r.options.DependentRetry, r.reportTensorBoard(ctx, job, problem)
	}
	switch {
	case apierrors.IsConflict(err):
		wait = conflictDelay
	case errors.Is(err, owned.ErrNotCached):
		wait = r.options.DependentRetry // the cache will tell of it
	case err != nil:
		wait = dependentDelay
		ctrllog.FromContext(ctx).Error(err, "changing the TensorBoard of the job")
	}
	r.options.Memory.holdTensorBoard(client.ObjectKeyFromObject(job), heldChange{d.Change, r.options.Clock.Now().Add(wait)})
	return wait
}

// writeTensorBoard creates, changes or deletes the TensorBoard. That somebody else was faster is no error.
func (r *Reconciler[J]) writeTensorBoard(ctx context.Context, job J, d tensorBoardDecision) error {
	// The client does not wait for the cache to have these writes: it never might, if the kind is removed meanwhile.
	const noWait = client.DisableReadYourWritesConsistency
	spec, _ := tensorBoardOf(job)
	switch d.Change {
	case batchv1beta1.ActionCreate:
		return r.createOwned(ctx, job, &tensorboardv1beta1.TensorBoard{
			ObjectMeta: metav1.ObjectMeta{
				Name:            job.GetName(),
				Namespace:       job.GetNamespace(),
				Labels:          jobLabels(r.gvk.Kind, job.GetName()),
				OwnerReferences: []metav1.OwnerReference{r.ownerOf(job)},
			},
			Spec: *spec.DeepCopy(),
		}, noWait)
	case batchv1beta1.ActionUpdate:
		changed := d.Object.DeepCopy()
		changed.Spec = wanted(spec, d.Object)
		err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(d.Object, client.MergeFromWithOptimisticLock{}), noWait)
		return overtaken("changing", d.Object, err)
	default:
		return overtaken("deleting", d.Object, r.client.Delete(ctx, d.Object, client.Preconditions{UID: &d.Object.UID}, noWait))
	}
}

// overtaken forgives that a TensorBoard has changed or is gone, of which the next look tells. Of other errors it says what failed.
func overtaken(doing string, object *tensorboardv1beta1.TensorBoard, err error) error {
	if err == nil || apierrors.IsConflict(err) || isNotFoundOrNotInstalled(err) {
		return nil
	}
	return fmt.Errorf("%s tensorboard %s: %w", doing, object.Name, err)
}

// reportTensorBoard writes into the status why a change could not be made.
func (r *Reconciler[J]) reportTensorBoard(ctx context.Context, job J, problem *owned.RefusedError) error {
	_, before := tensorBoardOf(job)
	if before == nil {
		before = creating()
	}
	status := *before
	status.Reason, status.Note, status.Type = problem.Reason, control.Truncated(problem.Error(), control.MaxNote), corev1.EventTypeWarning
	if equality.Semantic.DeepEqual(status, *before) {
		return nil
	}
	return r.patchStatus(ctx, job, *job.JobStatus(), &status, tensorBoardEvents(before, &status))
}

// tensorBoardProblem returns what the status is to say of a change that failed, nil if another try may well succeed.
func tensorBoardProblem(change string, err error) *owned.RefusedError {
	var refused *owned.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case isNotFoundOrNotInstalled(err):
		return tensorBoardsNotInstalled(err)
	case !owned.IsRefused(err):
		return nil
	case change == batchv1beta1.ActionUpdate:
		return &owned.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: err}
	default:
		return &owned.RefusedError{Reason: batchv1beta1.ReasonDeleteFailed, Err: err}
	}
}

// tensorBoards is their kind, as the engine watches it.
func tensorBoards() dependentKind[*tensorboardv1beta1.TensorBoard] {
	return dependentKind[*tensorboardv1beta1.TensorBoard]{
		object:       &tensorboardv1beta1.TensorBoard{},
		list:         &tensorboardv1beta1.TensorBoardList{},
		reported:     func(tensorBoard *tensorboardv1beta1.TensorBoard) any { return statusOf(tensorBoard, nil) },
		strip:        stripTensorBoard,
		notInstalled: tensorBoardsNotInstalled,
	}
}

// stripTensorBoard keeps of the status of a TensorBoard what the engine reads.
func stripTensorBoard(tensorBoard *tensorboardv1beta1.TensorBoard) {
	status := tensorboardv1beta1.TensorBoardStatus{Phase: tensorBoard.Status.Phase}
	if ready := readyCondition(tensorBoard); ready.Type != "" {
		ready.LastProbeTime = nil
		status.Conditions = []tensorboardv1beta1.TensorBoardCondition{ready}
	}
	tensorBoard.Status = status
}
