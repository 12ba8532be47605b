package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// writeStatus writes the status if the decision changes it, and then emits the events of the decision. If the write
// can be delayed, writeStatus writes nothing, and due is the time of the write. Otherwise due is zero.
func (r *Reconciler[J]) writeStatus(
	ctx context.Context, job J, planned view.Job, d decision,
) (due time.Time, err error) {
	key := client.ObjectKeyFromObject(job)
	if !d.changesStatus(planned) {
		r.options.Memory.SetWaitsSince(key, time.Time{})
		return due, nil
	}
	if wait := r.statusDelay(planned, d); wait > 0 {
		if r.options.Memory.WaitsSince(key).IsZero() {
			r.options.Memory.SetWaitsSince(key, r.options.Clock.Now())
		}
		return r.after(wait), nil
	}
	if plan.EndsRun(planned, d.Decision) {
		if err := r.deleteSecret(ctx, job); err != nil {
			return due, err
		}
	}
	if err := r.patchStatus(ctx, job, d.Status, d.tensorBoard.Status, d.Events); err != nil {
		return due, err
	}
	r.metrics.observe(d.Decision)
	return due, nil
}

// statusDelay returns how much longer the status of a decision can be batched with later changes.
func (r *Reconciler[J]) statusDelay(job view.Job, d decision) time.Duration {
	delay := d.statusDelay(job, r.options.StatusInterval)
	if since := r.options.Memory.WaitsSince(types.NamespacedName{
		Namespace: job.Namespace, Name: job.Name,
	}); !since.IsZero() {
		delay -= r.options.Clock.Now().Sub(since)
	}
	return max(0, delay)
}

// onlyDelays reports whether a decision changes nothing except the status of the job, and this change can be delayed.
func (r *Reconciler[J]) onlyDelays(job view.Job, d decision) bool {
	return !d.DeleteJob && !d.changesObjects() && r.statusDelay(job, d) > 0
}

// patchStatus replaces the status of the job and then emits the events. It returns a conflict, and emits no events,
// if somebody has changed the job since it was read.
func (r *Reconciler[J]) patchStatus(
	ctx context.Context, job J, status batchv1beta1.JobStatus, tensorBoard *batchv1beta1.DependentStatus,
	events []report.Event,
) error {
	was, wasDecided := job.JobStatus().Phase, job.JobStatus().Decided()
	if job.JobStatus().ObservedGeneration == 0 {
		was = "" // no controller has set the phase: it is the default of the API server
	}
	tensorBoardWas := tensorboard.Of(job).Status
	base, changed := r.onlyStatus(job, *job.JobStatus(), tensorBoardWas), r.onlyStatus(job, status, tensorBoard)
	if err := loop.PatchStatus(ctx, r.cluster.Client, base, changed); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	job.SetResourceVersion(changed.GetResourceVersion())
	if was := job.JobStatus(); !equality.Semantic.DeepEqual(was.Progress, status.Progress) ||
		!equality.Semantic.DeepEqual(was.RestartsInPlace, status.RestartsInPlace) {
		r.options.Memory.progress.wrote(client.ObjectKeyFromObject(job), r.options.Clock.Now())
	}
	if status.Finished() {
		r.forgetProgress(client.ObjectKeyFromObject(job)) // the job might not be reconciled again
	}
	*job.JobStatus() = status
	tensorboard.SetStatus(job, tensorBoard)
	r.options.Memory.SetWaitsSince(client.ObjectKeyFromObject(job), time.Time{})
	if status.Decided() && !wasDecided && !status.Finished() {
		ctrllog.FromContext(ctx).Info("EndDecided", factsOf(status)...)
	}
	r.tell(ctx, job, status, was, events)
	return nil
}

// onlyStatus returns a job that has the identity of the given job, the given status, and no spec. So the computation
// of a patch does not compare pod templates.
func (r *Reconciler[J]) onlyStatus(job J, status batchv1beta1.JobStatus, tensorBoard *batchv1beta1.DependentStatus) J {
	only := r.framework.NewJob()
	only.SetNamespace(job.GetNamespace())
	only.SetName(job.GetName())
	only.SetResourceVersion(job.GetResourceVersion())
	*only.JobStatus() = status
	tensorboard.SetStatus(only, tensorBoard)
	return only
}
