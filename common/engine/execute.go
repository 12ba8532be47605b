package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/policy"
)

// event is what is told about a job once the status that it speaks of is written.
type event = control.Event

// conflictDelay is how long to wait for the cache after a write that met a newer version.
const conflictDelay = 100 * time.Millisecond

// maxMessage is the longest message that a condition takes, in bytes.
const maxMessage = 32768

// execute carries out a decision: the status first, unless it may wait, so that what it accounts for is not lost, then deletions,
// then creations.
func (r *Reconciler[J]) execute(ctx context.Context, job J, d decision) (reconcile.Result, error) {
	result, err := r.changeJob(ctx, job, d)
	if apierrors.IsConflict(err) {
		// Somebody changed the job since it was read. The change may be one that does not wake us.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	err = r.changePodGroup(ctx, job, d.PodGroup)
	if apierrors.IsConflict(err) { // somebody was faster, perhaps by a change that does not wake us
		result, err = sooner(result, conflictDelay), nil
	}
	if deleteErr := r.delete(ctx, d); deleteErr != nil {
		return reconcile.Result{}, errors.Join(err, deleteErr)
	}
	if err == nil {
		err = r.create(ctx, job, d)
	}
	if refused, ok := errors.AsType[*owned.RefusedError](err); ok {
		if err := r.reportRefusal(ctx, job, d.Status, refused); err != nil {
			return reconcile.Result{}, err
		}
		// Not an error, which would leave it to the queue when to try again: the job may have to wake sooner.
		result = sooner(result, policy.RefusalDelay(r.refusedFor(job)))
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if d.TensorBoard.Change != "" {
		result = sooner(result, r.changeTensorBoard(ctx, job, d.TensorBoard))
	}
	if !d.WakeAt.IsZero() {
		result = sooner(result, d.WakeAt.Sub(r.options.Clock.Now()))
	}
	if result.RequeueAfter > 0 {
		result.Priority = new(priorityOf(d))
	}
	return result, nil
}

// changeJob deletes the job or writes its status, if either is due. It returns a conflict if the job is not the newest and
// anything is to be changed.
func (r *Reconciler[J]) changeJob(ctx context.Context, job J, d decision) (reconcile.Result, error) {
	if d.DeleteJob {
		return reconcile.Result{}, r.deleteJob(ctx, job)
	}
	read := job.GetResourceVersion()
	result, err := r.writeStatus(ctx, job, d)
	if err == nil && d.changesObjects() && job.GetResourceVersion() == read {
		err = r.confirm(ctx, job)
	}
	return result, err
}

// confirm returns a conflict if the job is not the newest. The write of a status finds that out by itself; what is done
// without one must not follow a spec that was edited since, or bring back the pods of a job that has finished.
func (r *Reconciler[J]) confirm(ctx context.Context, job J) error {
	newest := &metav1.PartialObjectMetadata{}
	newest.SetGroupVersionKind(r.gvk)
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(job), newest)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the job before its objects are changed: %w", err)
	}
	if err != nil || newest.GetResourceVersion() != job.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: r.gvk.Kind}, job.GetName(), errors.New("the job was changed since it was read"))
	}
	return nil
}

func sooner(result reconcile.Result, wait time.Duration) reconcile.Result {
	wait = max(wait, time.Millisecond) // 0 means never
	if result.RequeueAfter == 0 || wait < result.RequeueAfter {
		result.RequeueAfter = wait
	}
	return result
}

// writeStatus writes the status if it differs, at once or when its turn comes, and then emits the events that speak of it.
func (r *Reconciler[J]) writeStatus(ctx context.Context, job J, d decision) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(job)
	_, tensorBoard := tensorBoardOf(job)
	if isSameStatus(*job.JobStatus(), d.Status) && equality.Semantic.DeepEqual(tensorBoard, d.TensorBoard.Status) {
		r.options.Memory.SetWaitsSince(key, time.Time{})
		return reconcile.Result{}, nil
	}
	if wait := r.postponed(job, d); wait > 0 {
		if r.options.Memory.WaitsSince(key).IsZero() {
			r.options.Memory.SetWaitsSince(key, r.options.Clock.Now())
		}
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.patchStatus(ctx, job, d.Status, d.TensorBoard.Status, d.Events); err != nil {
		return reconcile.Result{}, err
	}
	r.metrics.observe(d)
	return reconcile.Result{}, nil
}

// postponed returns how long the status of a decision has to wait, if it can: then it is written with what comes meanwhile.
func (r *Reconciler[J]) postponed(job J, d decision) time.Duration {
	if _, tensorBoard := tensorBoardOf(job); !onlyFollowsTensorBoard(tensorBoard, d.TensorBoard.Status) {
		return 0
	}
	wait := patience(r.framework.JobSpec(job), *job.JobStatus(), d, r.options.StatusInterval)
	if since := r.options.Memory.WaitsSince(client.ObjectKeyFromObject(job)); !since.IsZero() {
		wait -= r.options.Clock.Now().Sub(since)
	}
	return max(0, wait)
}

// endPatience is for how long the end of a replica is collected with those of its peers. Until it is written it is lost with its pod, and
// then the replica runs again, and maybe all do.
const endPatience = time.Second

// patience returns for how long the status of a decision is collected, at most for an interval. What can wait is what only follows the
// replicas, and that the job has begun.
func patience(spec framework.JobSpec, was batchv1beta1.JobStatus, d decision, interval time.Duration) time.Duration {
	switch {
	case len(d.Restarts) > 0, !begins(spec, was, d) && !onlyFollowsReplicas(was, d.Status):
		return 0
	case !was.Finished() && countEnded(d.Status.Tasks) > countEnded(was.Tasks):
		return min(endPatience, interval)
	default:
		return interval
	}
}

// countEnded counts the replicas that have ended.
func countEnded(tasks []batchv1beta1.TaskStatus) int {
	n := 0
	for _, task := range tasks {
		for _, replica := range task.Replicas {
			if hasEnded(replica.Phase) {
				n++
			}
		}
	}
	return n
}

// begins says that the status would be the first of a job whose replicas are merely on their way. Most run soon, and then the first
// write says so; until then the API server shows the phase Pending by itself. What a status must not lack cannot wait: when the deadline
// counts from, how many replicas an elastic job has, which of them a gang waits for, and that a replica failed.
func begins(spec framework.JobSpec, was batchv1beta1.JobStatus, d decision) bool {
	return was.ObservedGeneration == 0 && d.Status.Phase == batchv1beta1.JobPhasePending && onItsWay(d.Status.Reason) &&
		len(d.Events) == 0 && !meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionReplicaFailure) &&
		spec.RunPolicy.ActiveDeadlineSeconds == nil && spec.Elastic == nil && spec.Scheduler == nil
}

// postpones says that a decision does nothing for now.
func (r *Reconciler[J]) postpones(job J, d decision) bool {
	return !d.DeleteJob && !d.changesObjects() && r.postponed(job, d) > 0
}

// patchStatus replaces the status of the job, unless somebody changed the job since it was read, and then emits the events.
func (r *Reconciler[J]) patchStatus(
	ctx context.Context, job J, status batchv1beta1.JobStatus, tensorBoard *batchv1beta1.DependentStatus, events []event,
) error {
	was := job.JobStatus().Phase
	if job.JobStatus().ObservedGeneration == 0 {
		was = "" // the API server has set the phase
	}
	_, tensorBoardWas := tensorBoardOf(job)
	base, changed := r.onlyStatus(job, *job.JobStatus(), tensorBoardWas), r.onlyStatus(job, status, tensorBoard)
	if err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	job.SetResourceVersion(changed.GetResourceVersion())
	*job.JobStatus() = status
	setTensorBoardStatus(job, tensorBoard)
	r.options.Memory.SetWaitsSince(client.ObjectKeyFromObject(job), time.Time{})
	r.tell(ctx, job, status, was, events)
	return nil
}

// onlyStatus returns the job with that status and without its spec, so that what has changed is not searched for in the templates of pods.
func (r *Reconciler[J]) onlyStatus(job J, status batchv1beta1.JobStatus, tensorBoard *batchv1beta1.DependentStatus) J {
	only := r.framework.NewJob()
	only.SetNamespace(job.GetNamespace())
	only.SetName(job.GetName())
	only.SetResourceVersion(job.GetResourceVersion())
	*only.JobStatus() = status
	setTensorBoardStatus(only, tensorBoard)
	return only
}

// isSameStatus says that two statuses do not differ. Replicas, of which there may be many, are compared without reflection.
func isSameStatus(a, b batchv1beta1.JobStatus) bool {
	if !slices.EqualFunc(a.Tasks, b.Tasks, isSameTask) {
		return false
	}
	a.Tasks, b.Tasks = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

func isSameTask(a, b batchv1beta1.TaskStatus) bool {
	return a.Type == b.Type && a.RestartCount == b.RestartCount && slices.EqualFunc(a.Replicas, b.Replicas, isSameReplica)
}

func isSameReplica(a, b batchv1beta1.ReplicaStatus) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Phase == b.Phase && a.Node == b.Node && a.Attempt == b.Attempt &&
		a.RestartTime.Equal(b.RestartTime) && slices.EqualFunc(a.Containers, b.Containers, isSameContainer)
}

func isSameContainer(a, b batchv1beta1.ContainerStatus) bool {
	return a.Name == b.Name && a.State == b.State && a.Reason == b.Reason && ptr.Equal(a.ExitCode, b.ExitCode)
}

// onlyFollowsReplicas says that two statuses differ in nothing but what changes with every step of every replica.
func onlyFollowsReplicas(a, b batchv1beta1.JobStatus) bool {
	return slices.EqualFunc(a.Tasks, b.Tasks, hasSameReplicas) && equality.Semantic.DeepEqual(withoutReplicas(a), withoutReplicas(b))
}

// hasSameReplicas says that two tasks are of the same replicas, whatever has become of them.
func hasSameReplicas(a, b batchv1beta1.TaskStatus) bool {
	isSame := func(a, b batchv1beta1.ReplicaStatus) bool { return a.Name == b.Name }
	return a.Type == b.Type && slices.EqualFunc(a.Replicas, b.Replicas, isSame)
}

// withoutReplicas leaves out what follows the replicas. While they are on their way, that is also whether they have pods yet.
func withoutReplicas(s batchv1beta1.JobStatus) batchv1beta1.JobStatus {
	withoutPods := func(reason string) string {
		if reason == batchv1beta1.ReasonCreating {
			return batchv1beta1.ReasonPending
		}
		return reason
	}
	s.Tasks, s.Aggregate, s.Ready, s.Replicas, s.Reason = nil, nil, "", 0, withoutPods(s.Reason)
	conditions := make([]metav1.Condition, len(s.Conditions))
	copy(conditions, s.Conditions)
	for i := range conditions {
		conditions[i].Message = ""
		conditions[i].Reason = withoutPods(conditions[i].Reason)
	}
	s.Conditions = conditions
	return s
}

// tell tells of what has just been done. The log says of a change of phase also where there is no event of it.
func (r *Reconciler[J]) tell(ctx context.Context, job J, status batchv1beta1.JobStatus, was batchv1beta1.JobPhase, events []event) {
	facts := []any{"phase", status.Phase, "reason", status.Reason, "attempt", status.Attempt, "backoffCount", status.BackoffCount}
	for _, e := range events {
		control.Tell(ctx, r.events, job, e, facts...)
	}
	if len(events) == 0 && was != status.Phase {
		ctrllog.FromContext(ctx).Info("PhaseChanged", append(facts, "was", was)...)
	}
}

// deleteJob deletes a job that is still the one that was seen. What it owns is garbage collected with it.
func (r *Reconciler[J]) deleteJob(ctx context.Context, job J) error {
	uid, version := job.GetUID(), job.GetResourceVersion()
	err := r.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the job after its time to live: %w", err)
	}
	ctrllog.FromContext(ctx).Info("Expired", "phase", job.JobStatus().Phase, "completionTime", job.JobStatus().CompletionTime)
	return nil
}

// delete deletes each pod that is still the one that was seen.
func (r *Reconciler[J]) delete(ctx context.Context, d decision) error {
	return errors.Join(
		r.deletePods(ctx, d.Deletes, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
		}),
		r.deletePods(ctx, d.CleanUps, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}}
		}),
		r.deletePods(ctx, d.ForceDeletes, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(0)}
		}),
	)
}

func (r *Reconciler[J]) deletePods(ctx context.Context, pods []*corev1.Pod, options func(*corev1.Pod) []client.DeleteOption) error {
	goOn := func(error) bool { return true } // another pod may well be deleted
	return inParallel(len(pods), goOn, func(i int) error {
		err := r.client.Delete(ctx, pods[i], options(pods[i])...)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // the pod of this UID is gone or has changed, of which the cache will tell
		}
		if err != nil {
			return fmt.Errorf("deleting pod %s: %w", pods[i].Name, err)
		}
		return nil
	})
}

func (r *Reconciler[J]) create(ctx context.Context, job J, d decision) error {
	if d.CreateService {
		service := buildService(r.gvk.Kind, r.ownerOf(job), job.GetNamespace(), job.GetName())
		if err := r.createOwned(ctx, job, service); err != nil {
			return err
		}
	}
	if len(d.Creates) == 0 {
		return nil
	}
	if err := r.createSecret(ctx, job); err != nil {
		return err
	}
	inTheWay := func(err error) bool { // of this pod alone
		var refused *owned.RefusedError
		return errors.As(err, &refused) && refused.Reason == batchv1beta1.ReasonNameConflict
	}
	if err := inParallel(len(d.Creates), inTheWay, func(i int) error { return r.createOwned(ctx, job, d.Creates[i]) }); err != nil {
		return err
	}
	r.tell(ctx, job, d.Status, d.Status.Phase, []event{{
		Type: corev1.EventTypeNormal, Reason: batchv1beta1.EventCreated, Action: "Create",
		Message: fmt.Sprintf("created %d replicas", len(d.Creates)), Facts: []any{"replicas", len(d.Creates)},
	}})
	return nil
}

// createSecret creates the Secret that the replicas share, if they do and there is none yet.
func (r *Reconciler[J]) createSecret(ctx context.Context, job J) error {
	withSecret, ok := r.framework.(framework.SecretFramework[J])
	if !ok {
		return nil
	}
	secret, err := withSecret.NewSecret(job)
	if err != nil {
		return fmt.Errorf("making the Secret of the job: %w", err)
	}
	secret.Namespace = job.GetNamespace()
	secret.Labels = jobLabels(r.gvk.Kind, job.GetName())
	secret.OwnerReferences = []metav1.OwnerReference{r.ownerOf(job)}
	// Without the option the client would have Secrets in its cache, which it may not read.
	err = r.client.Create(ctx, secret, client.DisableReadYourWritesConsistency)
	// Quotas are checked before names.
	overQuota := apierrors.IsForbidden(err) && (job.JobStatus().RunningTime != nil || job.JobStatus().Attempt > 0)
	if apierrors.IsAlreadyExists(err) || overQuota {
		return nil // the pods that were there before had it
	}
	return owned.RefusedOrFailed("secret "+secret.Name, err)
}

// createOwned creates an object of the job. An object of the name that is not the job's is never touched. Errors are of type
// *owned.RefusedError, unless another try may well succeed.
func (r *Reconciler[J]) createOwned(ctx context.Context, job J, object client.Object, options ...client.CreateOption) error {
	return owned.Create(ctx, r.client, r.apiReader, job, theJob, object, options...)
}

// theJob is what users know the owner of all objects as.
const theJob = "the job"

// refusedFor returns how long objects of the job have been refused.
func (r *Reconciler[J]) refusedFor(job J) time.Duration {
	if c := initialized(*job.JobStatus()); c != nil && isCreateFailure(c.Reason) {
		return r.options.Clock.Now().Sub(c.LastTransitionTime.Time)
	}
	return 0
}

// reportRefusal writes into the status that was decided why an object of the job could not be created.
func (r *Reconciler[J]) reportRefusal(ctx context.Context, job J, decided batchv1beta1.JobStatus, refused *owned.RefusedError) error {
	status := *decided.DeepCopy()
	status.Reason = refused.Reason
	changed := meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type:               batchv1beta1.ConditionInitialized,
		Status:             metav1.ConditionFalse,
		Reason:             refused.Reason,
		Message:            control.Truncated(refused.Error(), maxMessage),
		ObservedGeneration: job.GetGeneration(),
		LastTransitionTime: metav1.NewTime(r.options.Clock.Now()),
	})
	if !changed {
		return nil
	}
	_, tensorBoard := tensorBoardOf(job)
	return r.patchStatus(ctx, job, status, tensorBoard, []event{{
		Type: corev1.EventTypeWarning, Reason: refused.Reason, Action: "Create", Message: refused.Error(),
	}})
}

// inParallel calls do for 0 to n-1, one at first, and with each that returns one more at a time, up to maxParallel: so their number doubles
// with each round trip, and a refusal that all calls meet from the first on, such as of an admission webhook, costs one. It starts no more after an error past
// which it may not go on. It returns the first of those, or else the first of all, in the order of the calls, so that what is said of a
// refusal does not depend on which call is faster.
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

// maxParallel bounds how many requests of one job are under way at once. The controller of batch/v1 Jobs creates as many pods in one go, of
// which it has half under way.
const maxParallel = 500
