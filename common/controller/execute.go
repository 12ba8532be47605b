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

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// execute carries out a decision. It first writes the status, so that a failure is recorded before its pod is
// deleted. If this write can be delayed, execute leaves the write to a later reconcile. After that, execute changes
// the PodGroup or the Workload, releases and deletes pods, creates objects, and finally changes the TensorBoard.
func (r *Reconciler[J]) execute(ctx context.Context, job J, planned view.Job, d decision) (loop.Requeue, error) {
	requeue := loop.Requeue{At: d.RequeueAt, Priority: new(priorityOf(d.Decision))}
	delay := r.delayCreations(job, &d.Decision)
	due, err := r.changeJob(ctx, job, planned, d)
	if err != nil {
		return requeue, err
	}
	requeue.By(due)
	err = r.changeAdmission(ctx, job, d.Admission)
	if apierrors.IsConflict(err) { // the PodGroup or Workload was changed or deleted, perhaps without an event
		requeue.By(r.after(loop.ConflictDelay))
		d.Creates, err = nil, nil // the pods might not be admitted anymore
	}
	if deleteErr := r.releaseAndDelete(ctx, client.ObjectKeyFromObject(job), d.Decision); deleteErr != nil {
		return requeue, errors.Join(err, deleteErr)
	}
	if err == nil {
		err = r.create(ctx, job, &planned, d.Decision)
	}
	if err == nil && createsObjects(d.Decision) {
		// If a created object is deleted while the watch is broken, the cache never shows the object, and no event
		// requeues the job.
		requeue.By(r.after(view.CacheDelay))
	}
	if delay > 0 {
		requeue.By(r.after(delay))
	}
	if refused, ok := errors.AsType[*report.RefusedError](err); ok {
		if refused.Reason != batchv1beta1.ReasonResourceQuotaExceeded {
			r.options.Memory.waiting.Leave(client.ObjectKeyFromObject(job)) // the quota can go to other jobs
		}
		if err := r.reportRefusal(ctx, job, d.Status, refused); err != nil {
			return requeue, err
		}
		// Do not return the error. If Reconcile returned an error, the queue would determine the next reconcile with its
		// backoff, but the job can be due earlier.
		requeue.By(r.after(policy.RefusalDelay(r.refusedFor(job))))
	} else if errors.Is(err, errRelabelled) {
		requeue.By(r.after(relabelledDelay))
	} else if err != nil {
		return requeue, err
	}
	if d.tensorBoard.Change.Action != "" {
		writeEntry := func(ctx context.Context, status *batchv1beta1.DependentStatus, events []report.Event) error {
			return r.patchStatus(ctx, job, *job.JobStatus(), status, events)
		}
		requeue.By(r.after(r.tensorBoards.Apply(ctx, job, d.tensorBoard.Change, writeEntry)))
	}
	return requeue, nil
}

// changeJob deletes the job or writes its status, if the decision requires it. If the write is delayed, due is the
// time of the write. If the job has changed since it was read, err is a conflict. changeJob does not check for a
// conflict if it writes nothing and the decision changes no other objects.
func (r *Reconciler[J]) changeJob(ctx context.Context, job J, planned view.Job, d decision) (due time.Time, err error) {
	if d.DeleteJob {
		return due, r.deleteJob(ctx, job)
	}
	read := job.GetResourceVersion()
	due, err = r.writeStatus(ctx, job, planned, d)
	if err == nil && d.changesObjects() && job.GetResourceVersion() == read {
		err = r.confirm(ctx, job)
	}
	return due, err
}

// confirm returns a conflict if the job was changed since it was read. A reconcile that writes the status does not
// need confirm, because a status write also fails with a conflict. Without any check for conflicts, the controller
// could act on an outdated spec, or create pods again for a job that ends.
func (r *Reconciler[J]) confirm(ctx context.Context, job J) error {
	newest := &metav1.PartialObjectMetadata{}
	newest.SetGroupVersionKind(r.gvk)
	err := r.cluster.APIReader.Get(ctx, client.ObjectKeyFromObject(job), newest)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the job before changing its objects: %w", err)
	}
	if err != nil || newest.GetResourceVersion() != job.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: r.gvk.Kind}, job.GetName(),
			errors.New("the job was changed since it was read"))
	}
	return nil
}

// createsObjects reports whether a decision can create objects that later reconciles read from the cache.
func createsObjects(d plan.Decision) bool {
	return len(d.Creates) > 0 || d.CreateService || d.EnsureNetworkPolicy ||
		d.Admission.Action == batchv1beta1.ActionCreate
}
