package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// conflictDelay is how long to wait for the cache after a conflict.
const conflictDelay = 100 * time.Millisecond

// execute carries out a decision. It writes the status first, unless the write can be delayed, so that no failure is
// lost. Then it changes the PodGroup or the Workload, releases and deletes pods, and creates objects. It changes the
// TensorBoard last.
func (r *Reconciler[J]) execute(ctx context.Context, job J, planned view.Job, d decision) (reconcile.Result, error) {
	held := r.holdCreations(job, &d.Decision)
	result, err := r.changeJob(ctx, job, planned, d)
	if apierrors.IsConflict(err) {
		// Somebody changed the job since it was read. There might be no event that requeues the job.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	err = r.changeAdmission(ctx, job, d.Admission)
	if apierrors.IsConflict(err) { // somebody changed or deleted the object, perhaps without an event for the job
		result, err = sooner(result, conflictDelay), nil
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

// writeStatus writes the status if it differs, and then emits its events. If the write can be delayed, writeStatus
// requests a requeue for the time when it is due.
func (r *Reconciler[J]) writeStatus(
	ctx context.Context, job J, planned view.Job, d decision,
) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(job)
	if !d.changesStatus(planned) {
		r.options.Memory.SetWaitsSince(key, time.Time{})
		return reconcile.Result{}, nil
	}
	if wait := r.statusDelay(planned, d); wait > 0 {
		if r.options.Memory.WaitsSince(key).IsZero() {
			r.options.Memory.SetWaitsSince(key, r.options.Clock.Now())
		}
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if plan.EndsRun(planned, d.Decision) {
		if err := r.deleteSecret(ctx, job); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.patchStatus(ctx, job, d.Status, d.tensorBoard.Status, d.Events); err != nil {
		return reconcile.Result{}, err
	}
	r.metrics.observe(d.Decision)
	return reconcile.Result{}, nil
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

// onlyDelays reports whether a decision changes only the status and its write can be delayed.
func (r *Reconciler[J]) onlyDelays(job view.Job, d decision) bool {
	return !d.DeleteJob && !d.changesObjects() && r.statusDelay(job, d) > 0
}

// patchStatus replaces the status of the job, unless somebody changed the job since it was read, and then emits the
// events.
func (r *Reconciler[J]) patchStatus(
	ctx context.Context, job J, status batchv1beta1.JobStatus, tensorBoard *batchv1beta1.DependentStatus,
	events []report.Event,
) error {
	was, wasDecided := job.JobStatus().Phase, job.JobStatus().Decided()
	if job.JobStatus().ObservedGeneration == 0 {
		was = "" // the API server has set the phase as a default
	}
	tensorBoardWas := tensorboard.Of(job).Status
	base, changed := r.onlyStatus(job, *job.JobStatus(), tensorBoardWas), r.onlyStatus(job, status, tensorBoard)
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	job.SetResourceVersion(changed.GetResourceVersion())
	if !equality.Semantic.DeepEqual(job.JobStatus().Progress, status.Progress) {
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

// tensorBoardReporter returns a function that writes only the TensorBoard status of the job.
func (r *Reconciler[J]) tensorBoardReporter(
	job J,
) func(context.Context, *batchv1beta1.DependentStatus, []report.Event) error {
	return func(ctx context.Context, status *batchv1beta1.DependentStatus, events []report.Event) error {
		return r.patchStatus(ctx, job, *job.JobStatus(), status, events)
	}
}

// onlyStatus returns the job with the given status and without its spec, so that the computation of a patch does not
// compare pod templates.
func (r *Reconciler[J]) onlyStatus(job J, status batchv1beta1.JobStatus, tensorBoard *batchv1beta1.DependentStatus) J {
	only := r.framework.NewJob()
	only.SetNamespace(job.GetNamespace())
	only.SetName(job.GetName())
	only.SetResourceVersion(job.GetResourceVersion())
	*only.JobStatus() = status
	tensorboard.SetStatus(only, tensorBoard)
	return only
}

// tell emits and logs events. It also logs a change of the phase that has no event.
func (r *Reconciler[J]) tell(
	ctx context.Context, job J, status batchv1beta1.JobStatus, was batchv1beta1.JobPhase, events []report.Event,
) {
	facts := factsOf(status)
	for _, e := range events {
		control.Tell(ctx, r.events, job, e, facts...)
	}
	if len(events) == 0 && was != status.Phase {
		ctrllog.FromContext(ctx).Info("PhaseChanged", append(facts, "was", was)...)
	}
}

// factsOf returns the keys and values of the status that are part of each log line.
func factsOf(status batchv1beta1.JobStatus) []any {
	return []any{
		"phase", status.Phase, "reason", status.Reason, "attempt", status.Attempt, "backoffCount", status.BackoffCount,
	}
}

// deleteJob deletes the job if it is unchanged since it was read. The objects that it owns are garbage collected.
func (r *Reconciler[J]) deleteJob(ctx context.Context, job J) error {
	uid, version := job.GetUID(), job.GetResourceVersion()
	err := r.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the job after its time to live: %w", err)
	}
	ctrllog.FromContext(ctx).Info("Expired", "phase", job.JobStatus().Phase, "completionTime",
		job.JobStatus().CompletionTime)
	return nil
}

// releaseAndDelete releases pods and then deletes pods. Preconditions ensure that only the pods that were seen are
// deleted. If a pod cannot be released, the others are still deleted.
func (r *Reconciler[J]) releaseAndDelete(ctx context.Context, job types.NamespacedName, d plan.Decision) error {
	released, err := r.release(ctx, job, d.Releases)
	return errors.Join(
		err,
		r.deletePods(ctx, job, d.Deletes, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
		}),
		r.deletePods(ctx, job, d.CleanUps, func(pod *corev1.Pod) []client.DeleteOption {
			seen := client.Preconditions{UID: &pod.UID}
			seen.ResourceVersion = new(cmp.Or(released[pod.UID], pod.ResourceVersion))
			return []client.DeleteOption{seen}
		}),
		r.deletePods(ctx, job, d.ForceDeletes, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(0)}
		}),
	)
}

func (r *Reconciler[J]) deletePods(
	ctx context.Context, job types.NamespacedName, pods []*corev1.Pod, options func(*corev1.Pod) []client.DeleteOption,
) error {
	goOn := func(error) bool { return true } // the deletion of another pod can succeed
	return inParallel(len(pods), goOn, func(i int) error {
		err := r.client.Delete(ctx, pods[i], options(pods[i])...)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // the pod of this UID is gone or has changed: its next event requeues the job
		}
		if err != nil {
			return fmt.Errorf("deleting pod %s: %w", pods[i].Name, err)
		}
		r.options.Memory.noteWrite(job, pods[i].Name)
		return nil
	})
}

func (r *Reconciler[J]) create(ctx context.Context, job J, planned *view.Job, d plan.Decision) error {
	if d.EnsureNetworkPolicy {
		policy := newNetworkPolicy(planned, r.options.NetworkPolicies, r.options.ProgressReader)
		if err := r.policies.Ensure(ctx, job, view.TheJob, policy); err != nil {
			return err
		}
	}
	if d.CreateService {
		err := r.createOwned(ctx, job, newService(planned))
		if r.isRelabelled(job, err) {
			r.options.Memory.noteService(job)
		} else if err != nil {
			return err
		}
	}
	if err := r.awaitRoom(ctx, job, d); err != nil || len(d.Creates) == 0 {
		return err
	}
	if err := r.createSecret(ctx, job, planned); err != nil {
		return err
	}
	inTheWay := func(err error) bool { // reports whether the error concerns only this pod
		var refused *report.RefusedError
		return errors.Is(err, errRelabelled) ||
			errors.As(err, &refused) && refused.Reason == batchv1beta1.ReasonNameConflict
	}
	createPod := func(i int) error { return r.createPod(ctx, job, &d.Creates[i]) }
	if err := inParallel(len(d.Creates), inTheWay, createPod); err != nil {
		return err
	}
	r.tell(ctx, job, d.Status, d.Status.Phase, []report.Event{{
		Type: corev1.EventTypeNormal, Reason: batchv1beta1.EventCreated, Action: "Create",
		Message: "created " + report.Count(len(d.Creates), "replica"), Facts: []any{"replicas", len(d.Creates)},
	}})
	return nil
}

// createPod builds a pod and creates it. It waits for memory if too many pods are being created.
func (r *Reconciler[J]) createPod(ctx context.Context, job J, c *view.Creation) error {
	if err := r.pods.Acquire(ctx, job.GetNamespace(), c.Size); err != nil {
		return fmt.Errorf("waiting for %d bytes of memory to create pod %s: %w", c.Size, c.Name, err)
	}
	defer r.pods.Release(job.GetNamespace(), c.Size)
	pod, err := c.Build()
	if err != nil {
		return err
	}
	setToken(pod, rand.Text)
	asked := maps.Clone(pod.Labels)
	err = r.blamed(ctx, pod, ofQuota(r.createOwned(ctx, job, pod)))
	if r.isRelabelled(job, err) {
		return cmp.Or(r.deleteRelabelled(ctx, job, pod.Name), errRelabelled)
	}
	if err != nil {
		return err
	}
	if err := r.refuseChanged(ctx, job, asked, pod); err != nil {
		return err
	}
	r.options.Memory.noteWrite(client.ObjectKeyFromObject(job), pod.Name)
	return nil
}

// setToken sets a new token of a pod that can report the progress of the training.
func setToken(pod *corev1.Pod, newToken func() string) {
	if _, reports := pod.Annotations[batchv1beta1.AnnotationProgressPort]; reports {
		pod.Annotations[batchv1beta1.AnnotationProgressToken] = newToken()
	}
}

// createOwned creates an object of the job. It never changes an existing object of the same name. Errors are of type
// *report.RefusedError unless a retry can succeed.
func (r *Reconciler[J]) createOwned(
	ctx context.Context, job J, object client.Object, options ...client.CreateOption,
) error {
	return owned.Create(ctx, r.client, r.apiReader, job, view.TheJob, object, options...)
}

// inParallel calls do for 0 to n-1 with slow start. It begins with one call. Each call that returns raises the limit of
// concurrent calls by one, up to maxParallel, so the concurrency doubles with each round trip. If an admission webhook
// rejects all requests, only one request is sent.
//
// If mayGoOn returns false for an error, inParallel starts no more calls. It returns the first such error, or the first
// error if there is no such error. First means in the order of the calls, so that the returned error does not depend on
// which call is faster.
func inParallel(n int, mayGoOn func(error) bool, do func(i int) error) error {
	errs := make([]error, n)
	done := make(chan int)
	stops := func(err error) bool { return err != nil && !mayGoOn(err) }
	started, stopped := 0, false
	for returned := 0; returned < started || started < n && !stopped; {
		if !stopped && started < n && started-returned < min(returned+1, maxParallel) {
			go func(i int) {
				errs[i] = do(i)
				done <- i
			}(started)
			started++
			continue
		}
		stopped = stops(errs[<-done]) || stopped
		returned++
	}
	if i := slices.IndexFunc(errs, stops); i >= 0 {
		return errs[i]
	}
	return cmp.Or(errs...)
}

// maxParallel is the maximum number of concurrent requests for one job. The Job controller of Kubernetes creates up to
// 500 pods per sync, about half of them concurrently.
const maxParallel = 500
