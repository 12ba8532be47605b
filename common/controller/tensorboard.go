package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// tensorBoardTimeout ends a request about a TensorBoard that is not answered, so that no other job waits for it.
const tensorBoardTimeout = 10 * time.Second

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
func (r *Reconciler[J]) observeTensorBoard(ctx context.Context, job J) plan.TensorBoardView {
	spec, status := tensorBoardOf(job)
	if spec == nil && status == nil || !job.GetDeletionTimestamp().IsZero() {
		return plan.TensorBoardView{}
	}
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	view := plan.TensorBoardView{Held: r.options.Memory.heldTensorBoard(client.ObjectKeyFromObject(job))}
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
		view.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading tensorboard %s: %w", job.GetName(), err)}
	default:
		view.Unknown = true
	}
	return view
}

// isNotFoundOrNotInstalled reports whether there is no such object, or not even its kind.
func isNotFoundOrNotInstalled(err error) bool {
	var noKind *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	return apierrors.IsNotFound(err) || errors.As(err, &noKind) || errors.As(err, &noResource)
}

// tensorBoardsNotInstalled returns the problem of a job that can have no TensorBoard, since the CRD is missing.
func tensorBoardsNotInstalled(err error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the CustomResourceDefinition tensorboards.tensorstack.dev is not installed; the job trains without TensorBoard until it is: %w", err)}
}

// changeTensorBoard makes a change and returns when to look at the job again. It never fails, since the training does not depend on
// it: what went wrong is written into the status.
func (r *Reconciler[J]) changeTensorBoard(ctx context.Context, job J, d plan.TensorBoardDecision) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	wait, err := plan.CacheDelay, r.writeTensorBoard(ctx, job, d)
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
	r.options.Memory.holdTensorBoard(client.ObjectKeyFromObject(job), plan.HeldChange{Change: d.Change, Until: r.options.Clock.Now().Add(wait)})
	return wait
}

// writeTensorBoard creates, changes or deletes the TensorBoard. That somebody else was faster is no error.
func (r *Reconciler[J]) writeTensorBoard(ctx context.Context, job J, d plan.TensorBoardDecision) error {
	// The client does not wait for the cache to have these writes: it never might, if the kind is removed meanwhile.
	const noWait = client.DisableReadYourWritesConsistency
	spec, _ := tensorBoardOf(job)
	switch d.Change {
	case batchv1beta1.ActionCreate:
		return r.createOwned(ctx, job, &tensorboardv1beta1.TensorBoard{
			ObjectMeta: r.metaOfOwned(job),
			Spec:       *spec.DeepCopy(),
		}, noWait)
	case batchv1beta1.ActionUpdate:
		changed := d.Object.DeepCopy()
		changed.Spec = plan.WantedTensorBoard(spec, d.Object)
		err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(d.Object, client.MergeFromWithOptimisticLock{}), noWait)
		return overtaken("changing", d.Object, err)
	default:
		return overtaken("deleting", d.Object, r.client.Delete(ctx, d.Object, client.Preconditions{UID: &d.Object.UID}, noWait))
	}
}

// overtaken ignores conflicts and not-found errors: the next reconcile sees the change. It adds to other errors what
// failed.
func overtaken(doing string, object *tensorboardv1beta1.TensorBoard, err error) error {
	if err == nil || apierrors.IsConflict(err) || isNotFoundOrNotInstalled(err) {
		return nil
	}
	return fmt.Errorf("%s tensorboard %s: %w", doing, object.Name, err)
}

// reportTensorBoard writes into the status why a change could not be made.
func (r *Reconciler[J]) reportTensorBoard(ctx context.Context, job J, problem *report.RefusedError) error {
	_, before := tensorBoardOf(job)
	if before == nil {
		before = plan.CreatingTensorBoard()
	}
	status := *before
	status.Reason, status.Note, status.Type = problem.Reason, report.Truncated(problem.Error(), report.MaxNote), corev1.EventTypeWarning
	if equality.Semantic.DeepEqual(status, *before) {
		return nil
	}
	return r.patchStatus(ctx, job, *job.JobStatus(), &status, plan.TensorBoardEvents(before, &status))
}

// tensorBoardProblem returns what the status is to say of a change that failed, nil if another try may well succeed.
func tensorBoardProblem(change string, err error) *report.RefusedError {
	var refused *report.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case isNotFoundOrNotInstalled(err):
		return tensorBoardsNotInstalled(err)
	case !owned.IsRefused(err):
		return nil
	case change == batchv1beta1.ActionUpdate:
		return &report.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: err}
	default:
		return &report.RefusedError{Reason: batchv1beta1.ReasonDeleteFailed, Err: err}
	}
}

// tensorBoards is their kind, as the job controller watches it.
func tensorBoards() dependentKind[*tensorboardv1beta1.TensorBoard] {
	return dependentKind[*tensorboardv1beta1.TensorBoard]{
		object: &tensorboardv1beta1.TensorBoard{},
		list:   &tensorboardv1beta1.TensorBoardList{},
		reported: func(tensorBoard *tensorboardv1beta1.TensorBoard) any {
			return plan.TensorBoardStatusOf(tensorBoard, nil)
		},
		strip:        stripTensorBoard,
		notInstalled: tensorBoardsNotInstalled,
	}
}

// stripTensorBoard keeps of the status of a TensorBoard what the job controller reads.
func stripTensorBoard(tensorBoard *tensorboardv1beta1.TensorBoard) {
	status := tensorboardv1beta1.TensorBoardStatus{Phase: tensorBoard.Status.Phase}
	if ready := plan.TensorBoardReady(tensorBoard); ready.Type != "" {
		ready.LastProbeTime = nil
		status.Conditions = []tensorboardv1beta1.TensorBoardCondition{ready}
	}
	tensorBoard.Status = status
}
