package tensorboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

const (
	// probeTimeout is the time limit for the response of a sidecar.
	probeTimeout = 5 * time.Second
	// refusalDelay is the time between two attempts to create or change an object that the API server rejects.
	refusalDelay = 30 * time.Second
)

// theTensorBoard is the name of the owner of an object in messages.
const theTensorBoard = "the TensorBoard"

type reconciler struct {
	client  client.Client
	boards  large.Reader
	reader  client.Reader // reads from the API server, not from the cache
	claims  *claimReader
	events  events.EventRecorder
	http    *http.Client
	options Options
}

// NewReconciler returns the reconciler of TensorBoards. Program runs it in a manager.
func NewReconciler(cluster control.Cluster, options Options) reconcile.Reconciler {
	return newReconciler(cluster, options)
}

func newReconciler(cluster control.Cluster, options Options) *reconciler {
	return &reconciler{
		client:  cluster.Client,
		boards:  large.NewReader(cluster.APIReader, costOfLargeBoard, largeBoardMemory),
		reader:  cluster.APIReader,
		claims:  newClaimReader(cluster.APIReader),
		events:  cluster.Events,
		http:    sidecar.NewClient(probeTimeout),
		options: options,
	}
}

func (r *reconciler) setupWithManager(mgr ctrl.Manager) error {
	if err := metrics.Registry.Register(newCollector(mgr)); err != nil {
		return err
	}
	b := builder.ControllerManagedBy(mgr).
		For(&v1beta1.TensorBoard{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Pod{}).
		Owns(&corev1.Service{}).
		WithOptions(control.Options(r.options.Workers))
	if r.options.NetworkPolicies.Enabled {
		b.Owns(&networkingv1.NetworkPolicy{})
	}
	return b.Complete(r)
}

// Reconcile moves the state of a TensorBoard towards its spec. It returns an error if a retry can succeed.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var tb v1beta1.TensorBoard
	_, release, err := r.boards.Get(ctx, r.client, request.NamespacedName, &tb)
	if errors.Is(err, large.ErrNoMemory) {
		return reconcile.Result{RequeueAfter: large.Delay}, nil
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	release = sync.OnceFunc(release)
	defer release()
	if !tb.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // its objects are garbage collected
	}
	address, err := r.options.url(tb.Namespace, tb.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	prefix := strings.TrimSuffix(address.Path, "/")
	config, err := buildConfig(&tb.Spec, prefix)
	if err != nil {
		return reconcile.Result{}, err
	}
	hash := specHash(tb.Spec, config)
	release() // the sidecar, which belongs to a tenant, can take its time to answer
	seen, err := r.observe(ctx, &tb, hash)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := plan(&tb, seen, r.options, r.options.Clock.Now())
	d.Status.URL = address.String()
	return r.execute(ctx, &tb, seen, config, prefix, d)
}

// observe reads the objects of a TensorBoard. If its pod is ready, observe also asks the sidecar for its status.
func (r *reconciler) observe(ctx context.Context, tb *v1beta1.TensorBoard, hash string) (observation, error) {
	seen := observation{Hash: hash}
	var pod corev1.Pod
	err := r.client.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: objectName(tb.Name)}, &pod)
	if client.IgnoreNotFound(err) != nil {
		return seen, err
	}
	if err == nil && metav1.IsControlledBy(&pod, tb) {
		seen.Pod = &pod
	}
	if t9kScheduler(&tb.Spec) != nil {
		if seen.Group, err = observeGroup(ctx, r.reader, tb); err != nil {
			return seen, err
		}
	}
	if tb.Spec.Suspend {
		return seen, nil
	}
	if seen.Claims, err = r.claims.observe(ctx, tb, seen.Pod); err != nil {
		return seen, err
	}
	if seen.Pod != nil && seen.Pod.DeletionTimestamp.IsZero() && isReady(seen.Pod) {
		status, err := sidecar.Fetch(ctx, r.http, net.JoinHostPort(seen.Pod.Status.PodIP, strconv.Itoa(sidecar.HealthPort)))
		seen.Answer = &answer{Status: status, Err: err}
	}
	return seen, nil
}

// execute carries out a decision. It writes the status once, after all other objects. If that write is lost, the next
// reconcile observes the same state again.
func (r *reconciler) execute(
	ctx context.Context, tb *v1beta1.TensorBoard, seen observation, config, prefix string, d decision,
) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: d.RequeueAfter}
	var refused *report.RefusedError
	if err := r.ensureObjects(ctx, tb, seen, config, prefix, d); errors.As(err, &refused) {
		d.Status.Phase = v1beta1.TensorBoardFailed
		for i := range d.Status.Conditions {
			c := &d.Status.Conditions[i]
			if c.Type == v1beta1.ConditionReady {
				*c = follow(condition(tb.Status.Conditions, c.Type), notReady(refused.Reason, refused.Error()), false,
					r.options.Clock.Now())
			}
		}
		result.RequeueAfter = refusalDelay
	} else if _, ok := errors.AsType[*owned.NotCachedError](err); ok {
		// A watch event follows when the cache has the object, unless somebody removed our label from the object.
		result.RequeueAfter = refusalDelay
	} else if err != nil {
		return reconcile.Result{}, err
	}
	err := r.writeStatus(ctx, tb, d.Status)
	if err == nil && d.Suspend {
		err = r.suspend(ctx, tb)
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: control.ConflictDelay}, nil
	}
	return result, err
}

// ensureObjects deletes the objects that the TensorBoard does not need, and then creates the missing ones. The order
// ensures that a failed creation does not prevent a deletion.
func (r *reconciler) ensureObjects(
	ctx context.Context, tb *v1beta1.TensorBoard, seen observation, config, prefix string, d decision,
) error {
	if err := r.deleteObjects(ctx, seen, d); err != nil {
		return err
	}
	if r.options.NetworkPolicies.Enabled {
		policies := network.Keeper{Client: r.client, APIReader: r.reader}
		if err := policies.Ensure(ctx, tb, theTensorBoard, buildNetworkPolicy(tb, &r.options)); err != nil {
			return err
		}
	}
	if err := r.ensureService(ctx, tb); err != nil {
		return err
	}
	if !d.CreateGroup && !d.Create {
		return nil
	}
	pod, err := buildPod(tb, config, prefix, seen.Claims.WantedOn, r.options)
	if err != nil {
		return err // before a PodGroup exists that would hold quota for this pod
	}
	if d.CreateGroup {
		return r.create(ctx, tb, buildGroup(tb), client.DisableReadYourWritesConsistency) // PodGroups are not cached
	}
	if scheduler := t9kScheduler(&tb.Spec); scheduler != nil {
		gang.Decorate(pod, *scheduler, seen.Group.Object, gang.Member{Role: groupRole})
	}
	return r.create(ctx, tb, pod)
}

func (r *reconciler) deleteObjects(ctx context.Context, seen observation, d decision) error {
	if d.Delete {
		options := []client.DeleteOption{client.Preconditions{UID: &seen.Pod.UID}}
		if d.Force {
			options = append(options, client.GracePeriodSeconds(0))
		}
		if err := r.client.Delete(ctx, seen.Pod, options...); client.IgnoreNotFound(err) != nil &&
			!apierrors.IsConflict(err) {
			return fmt.Errorf("deleting pod %s: %w", seen.Pod.Name, err)
		}
	}
	if d.DeleteGroup {
		err := r.client.Delete(ctx, seen.Group.Object, client.Preconditions{UID: &seen.Group.Object.UID},
			client.DisableReadYourWritesConsistency)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting podgroup %s: %w", seen.Group.Object.Name, err)
		}
	}
	return nil
}

func (r *reconciler) ensureService(ctx context.Context, tb *v1beta1.TensorBoard) error {
	var service corev1.Service
	err := r.client.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: objectName(tb.Name)}, &service)
	if err == nil && metav1.IsControlledBy(&service, tb) || client.IgnoreNotFound(err) != nil {
		return err
	}
	return r.create(ctx, tb, buildService(tb))
}

func (r *reconciler) create(
	ctx context.Context, tb *v1beta1.TensorBoard, object client.Object, options ...client.CreateOption,
) error {
	return owned.Create(ctx, r.client, r.reader, tb, theTensorBoard, object, options...)
}

// writeStatus writes the status if it has changed. It emits an event for each new reason, and logs a new phase if there
// is no such event.
func (r *reconciler) writeStatus(ctx context.Context, tb *v1beta1.TensorBoard, status v1beta1.TensorBoardStatus) error {
	if equality.Semantic.DeepEqual(tb.Status, status) {
		return nil
	}
	before := tb.DeepCopy()
	tb.Status = status
	if err := control.PatchStatus(ctx, r.client, before, tb); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	hasEvent := false
	for _, name := range []string{v1beta1.ConditionReady, v1beta1.ConditionSourcesAvailable} {
		hasEvent = r.emit(ctx, tb, condition(before.Status.Conditions, name), condition(status.Conditions, name)) || hasEvent
	}
	if !hasEvent && before.Status.Phase != status.Phase {
		log.FromContext(ctx).Info("PhaseChanged", "phase", status.Phase,
			"reason", condition(status.Conditions, v1beta1.ConditionReady).Reason, "was", before.Status.Phase)
	}
	return nil
}

// emit emits an event if the reason of a condition has changed, and reports whether it did. There is no event for a
// transitional reason, or if SourcesAvailable becomes True and was not False before.
func (r *reconciler) emit(
	ctx context.Context, tb *v1beta1.TensorBoard, before, after *v1beta1.TensorBoardCondition,
) bool {
	switch {
	case before != nil && before.Reason == after.Reason, isTransitional[after.Reason]:
		return false
	case after.Type == v1beta1.ConditionSourcesAvailable && after.Status == metav1.ConditionTrue &&
		(before == nil || before.Status != metav1.ConditionFalse):
		return false
	}
	kind := corev1.EventTypeWarning
	if after.Status == metav1.ConditionTrue || after.Reason == v1beta1.ReasonSuspended ||
		after.Reason == v1beta1.ReasonCulled {
		kind = corev1.EventTypeNormal
	}
	control.Tell(ctx, r.events, tb, report.Event{
		Type: kind, Reason: after.Reason, Action: "Reconcile", Message: after.Message,
	},
		"phase", tb.Status.Phase, "condition", after.Type, "status", after.Status)
	return true
}

// isTransitional contains the reasons of a TensorBoard that is between two states, for example while it starts.
var isTransitional = map[string]bool{
	v1beta1.ReasonQueued: true, schedulerv1beta1.ReasonScheduling: true, schedulerv1beta1.ReasonTooFewPods: true,
	batchv1beta1.ReasonCreating: true, batchv1beta1.ReasonPending: true, batchv1beta1.ReasonRestarting: true,
	v1beta1.ReasonStopping: true, v1beta1.ReasonNotRunning: true,
}

// suspend sets spec.suspend to true. It returns a conflict error if the TensorBoard has changed since it was read. The
// status already has the reason.
func (r *reconciler) suspend(ctx context.Context, tb *v1beta1.TensorBoard) error {
	before := tb.DeepCopy()
	tb.Spec.Suspend = true
	if err := control.Patch(ctx, r.client, before, tb); err != nil {
		return fmt.Errorf("suspending an idle TensorBoard: %w", err)
	}
	return nil
}
