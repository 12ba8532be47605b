package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// execute carries out a decision. It writes the status first, unless the write can be delayed, so that no failure is
// lost. Then it changes the PodGroup or the Workload, releases and deletes pods, and creates objects. It changes the
// TensorBoard last.
func (r *Reconciler[J]) execute(ctx context.Context, job J, planned view.Job, d decision) (reconcile.Result, error) {
	held := r.holdCreations(job, &d.Decision)
	result, err := r.changeJob(ctx, job, planned, d)
	if apierrors.IsConflict(err) {
		// Somebody changed the job since it was read. There might be no event that requeues the job.
		return reconcile.Result{RequeueAfter: control.ConflictDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	err = r.changeAdmission(ctx, job, d.Admission)
	if apierrors.IsConflict(err) { // somebody changed or deleted the object, perhaps without an event for the job
		result, err = sooner(result, control.ConflictDelay), nil
		d.Creates = nil // the pods might not be admitted anymore
	}
	if deleteErr := r.releaseAndDelete(ctx, client.ObjectKeyFromObject(job), d.Decision); deleteErr != nil {
		return reconcile.Result{}, errors.Join(err, deleteErr)
	}
	if err == nil {
		err = r.create(ctx, job, &planned, d.Decision)
	}
	if err == nil && createsObjects(d.Decision) {
		// If an object is deleted before a broken watch is resumed, the cache never shows it, and no event requeues the
		// job.
		result = sooner(result, view.CacheDelay)
	}
	if held > 0 {
		result = sooner(result, held)
	}
	if refused, ok := errors.AsType[*report.RefusedError](err); ok {
		if refused.Reason != batchv1beta1.ReasonResourceQuotaExceeded {
			r.options.Memory.waiting.Leave(client.ObjectKeyFromObject(job)) // others need not wait for it
		}
		if err := r.reportRefusal(ctx, job, d.Status, refused); err != nil {
			return reconcile.Result{}, err
		}
		// Do not return the error. With an error the queue determines the backoff, but the job can be due earlier.
		result = sooner(result, policy.RefusalDelay(r.refusedFor(job)))
	} else if errors.Is(err, errRelabelled) {
		result = sooner(result, relabelledDelay)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if d.tensorBoard.Change.Action != "" {
		result = sooner(result, r.tensorBoards.Apply(ctx, job, d.tensorBoard.Change, r.tensorBoardReporter(job)))
	}
	if !d.WakeAt.IsZero() {
		result = sooner(result, d.WakeAt.Sub(r.options.Clock.Now()))
	}
	if result.RequeueAfter > 0 {
		result.Priority = new(priorityOf(d.Decision))
	}
	return result, nil
}

// changeJob deletes the job or writes its status, if either is due. It returns a conflict if the decision changes
// anything and the job was changed since it was read.
func (r *Reconciler[J]) changeJob(ctx context.Context, job J, planned view.Job, d decision) (reconcile.Result, error) {
	if d.DeleteJob {
		return reconcile.Result{}, r.deleteJob(ctx, job)
	}
	read := job.GetResourceVersion()
	result, err := r.writeStatus(ctx, job, planned, d)
	if err == nil && d.changesObjects() && job.GetResourceVersion() == read {
		err = r.confirm(ctx, job)
	}
	return result, err
}

// confirm returns a conflict if the job was changed since it was read. A status write checks this with an optimistic
// lock. Without a status write, the controller could act on an outdated spec, or create pods again for a job that ends.
func (r *Reconciler[J]) confirm(ctx context.Context, job J) error {
	newest := &metav1.PartialObjectMetadata{}
	newest.SetGroupVersionKind(r.gvk)
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(job), newest)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the job before changing its objects: %w", err)
	}
	if err != nil || newest.GetResourceVersion() != job.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: r.gvk.Kind}, job.GetName(),
			errors.New("the job was changed since it was read"))
	}
	return nil
}

// createsObjects reports whether a decision creates objects that the cache must show.
func createsObjects(d plan.Decision) bool {
	return len(d.Creates) > 0 || d.CreateService || d.EnsureNetworkPolicy ||
		d.Admission.Action == batchv1beta1.ActionCreate
}

// sooner returns the result with a requeue after the wait, unless the job is requeued earlier.
func sooner(result reconcile.Result, wait time.Duration) reconcile.Result {
	wait = max(wait, time.Millisecond) // 0 means no requeue
	if result.RequeueAfter == 0 || wait < result.RequeueAfter {
		result.RequeueAfter = wait
	}
	return result
}
