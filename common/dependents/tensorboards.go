package dependents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// tensorBoardTimeout limits the duration of the requests about a TensorBoard, so that other jobs do not wait long for
// these requests.
const tensorBoardTimeout = 10 * time.Second

// TensorBoards reads and writes the TensorBoards of jobs.
type TensorBoards struct {
	store[*tensorboardv1beta1.TensorBoard]

	delayed *DelayedChanges
}

// NewTensorBoards returns a TensorBoards that uses the clients of the cluster. The parameter delayed remembers the
// last change of each TensorBoard, so that the change is not repeated too early.
func NewTensorBoards(cluster Cluster, delayed *DelayedChanges) *TensorBoards {
	return &TensorBoards{store: newStore(tensorBoardKind(), cluster), delayed: delayed}
}

// tensorBoardKind returns the description of the kind TensorBoard.
func tensorBoardKind() kind[*tensorboardv1beta1.TensorBoard] {
	return kind[*tensorboardv1beta1.TensorBoard]{
		name:      "tensorboard",
		newObject: func() *tensorboardv1beta1.TensorBoard { return &tensorboardv1beta1.TensorBoard{} },
		newList:   func() client.ObjectList { return &tensorboardv1beta1.TensorBoardList{} },
		reported: func(tensorBoard *tensorboardv1beta1.TensorBoard) any {
			return tensorboard.StatusOf(tensorBoard, nil)
		},
		strip:        stripTensorBoard,
		notInstalled: tensorBoardsNotInstalled,
	}
}

// stripTensorBoard removes the part of the status of a TensorBoard that the job controller does not read.
func stripTensorBoard(tensorBoard *tensorboardv1beta1.TensorBoard) {
	status := tensorboardv1beta1.TensorBoardStatus{Phase: tensorBoard.Status.Phase}
	if ready := tensorboard.Ready(tensorBoard); ready.Type != "" {
		ready.LastProbeTime = nil
		status.Conditions = []tensorboardv1beta1.TensorBoardCondition{ready}
	}
	tensorBoard.Status = status
}

// tensorBoardsNotInstalled returns the problem of a job that needs a TensorBoard while the CRD of TensorBoards is not
// installed.
func tensorBoardsNotInstalled(err error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the CustomResourceDefinition tensorboards.tensorstack.dev is not installed; "+
			"the job trains without TensorBoard until it is: %w", err)}
}

// Observe reads the TensorBoard of a job that needs one, or has one that it no longer needs. It reads nothing for
// other jobs, and for a job that is being deleted.
func (t *TensorBoards) Observe(ctx context.Context, job framework.Job) tensorboard.Seen {
	seen := tensorboard.Of(job)
	if seen.Spec == nil && seen.Status == nil || !job.GetDeletionTimestamp().IsZero() {
		return seen
	}
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	key := client.ObjectKeyFromObject(job)
	seen.Delayed = t.delayed.Of(key)
	if seen.Spec == nil { // a stale cache could lack a TensorBoard that must be deleted
		seen.Snapshot = t.read(ctx, t.APIReader, key)
	} else {
		seen.Snapshot = t.observe(ctx, key, false)
	}
	return seen
}

// Apply makes a change and returns the delay before the job is reconciled again. It never fails, because the training
// does not depend on the TensorBoard. If the change is rejected, Apply calls writeStatus with a status that has the
// reason, unless the status of the job already has it.
func (t *TensorBoards) Apply(
	ctx context.Context, job framework.Job, change view.Change,
	writeStatus func(context.Context, *batchv1beta1.DependentStatus, []report.Event) error,
) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, tensorBoardTimeout)
	defer cancel()
	wait, err := view.CacheDelay, t.store.Apply(ctx, job, change)
	if change.Action == batchv1beta1.ActionUpdate && apierrors.IsConflict(err) {
		err = nil // the next reconcile sees the update of the other client
	}
	if problem := problemOf(err); problem != nil {
		wait, err = t.Retry, nil
		before := cmp.Or(tensorboard.Of(job).Status, tensorboard.Creating())
		if after := tensorboard.Refused(before, problem); !equality.Semantic.DeepEqual(after, before) {
			err = writeStatus(ctx, after, tensorboard.Events(before, after))
		}
	}
	_, notCached := errors.AsType[*owned.NotCachedError](err)
	switch {
	case apierrors.IsConflict(err):
		wait = loop.ConflictDelay
	case notCached:
		wait = t.Retry // if the cache is only stale, the event of the TensorBoard requeues the job earlier
	case err != nil:
		wait = retryDelay
		ctrllog.FromContext(ctx).Error(err, "Failed to change the TensorBoard of the job")
	}
	delayed := tensorboard.DelayedChange{Action: change.Action, Until: t.Clock.Now().Add(wait)}
	t.delayed.Set(client.ObjectKeyFromObject(job), delayed)
	return wait
}

// problemOf returns why a change was rejected. It returns nil if the change succeeded, or if it failed for a reason
// that a retry can overcome. The error of a rejected deletion is not a *report.RefusedError yet.
func problemOf(err error) *report.RefusedError {
	if refused, ok := errors.AsType[*report.RefusedError](err); ok {
		return refused
	}
	if owned.IsRefused(err) {
		return &report.RefusedError{Reason: batchv1beta1.ReasonDeleteFailed, Err: err}
	}
	return nil
}

// DelayedChanges remembers the last change of each job's TensorBoard, and until when this change must not be repeated.
type DelayedChanges = PerJob[tensorboard.DelayedChange]
