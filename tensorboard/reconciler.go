package tensorboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
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
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

const (
	// probeTimeout is how long a sidecar may take to answer.
	probeTimeout = 5 * time.Second
	// refusalDelay is the time between two tries of what the API server refuses.
	refusalDelay = 30 * time.Second
	// conflictDelay is how long to wait for the cache after a write that met a newer version.
	conflictDelay = 100 * time.Millisecond
)

// theTensorBoard is what messages call the owner of an object.
const theTensorBoard = "the TensorBoard"

type reconciler struct {
	client  client.Client
	reader  client.Reader // of the API server itself
	claims  *claimReader
	events  events.EventRecorder
	http    *http.Client
	options Options
}

func newReconciler(mgr ctrl.Manager, options Options) *reconciler {
	return &reconciler{
		client:  mgr.GetClient(),
		reader:  mgr.GetAPIReader(),
		claims:  newClaimReader(mgr.GetAPIReader()),
		events:  mgr.GetEventRecorder("tensorstack-jobs"),
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

// Reconcile brings one TensorBoard closer to what its spec says. It returns an error for what is worth another try.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var tb v1beta1.TensorBoard
	if err := r.client.Get(ctx, request.NamespacedName, &tb); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !tb.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // what it owns is garbage collected with it
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
	seen, err := r.observe(ctx, &tb, specHash(tb.Spec, config))
	if err != nil {
		return reconcile.Result{}, err
	}
	d := plan(&tb, seen, r.options, r.options.Clock.Now())
	d.Status.URL = address.String()
	return r.execute(ctx, &tb, seen, config, prefix, d)
}

// observe reads what there is of a TensorBoard, and asks the one that runs how it is.
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

// execute carries out a decision. The status is written last, and once: nothing is lost with it that could not be seen
// again.
func (r *reconciler) execute(
	ctx context.Context, tb *v1beta1.TensorBoard, seen observation, config, prefix string, d decision,
) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: d.WakeIn}
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
		result.RequeueAfter = refusalDelay // the cache will tell, unless somebody took our label off the object
	} else if err != nil {
		return reconcile.Result{}, err
	}
	err := r.writeStatus(ctx, tb, d.Status)
	if err == nil && d.Suspend {
		err = r.suspend(ctx, tb)
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return result, err
}

// ensureObjects deletes what the TensorBoard does not need, and then makes what it does: what it can not have keeps
// nothing alive.
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
		return err // and no group holds a quota for it
	}
	if d.CreateGroup {
		return r.create(ctx, tb, buildGroup(tb), client.DisableReadYourWritesConsistency) // no cache has it
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

// writeStatus writes the status if it differs, and tells the user of a new reason.
func (r *reconciler) writeStatus(ctx context.Context, tb *v1beta1.TensorBoard, status v1beta1.TensorBoardStatus) error {
	if equality.Semantic.DeepEqual(tb.Status, status) {
		return nil
	}
	before := tb.DeepCopy()
	tb.Status = status
	if err := r.client.Status().Patch(ctx, tb,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	told := false
	for _, name := range []string{v1beta1.ConditionReady, v1beta1.ConditionSourcesAvailable} {
		told = r.tell(ctx, tb, condition(before.Status.Conditions, name), condition(status.Conditions, name)) || told
	}
	if !told && before.Status.Phase != status.Phase {
		log.FromContext(ctx).Info("PhaseChanged", "phase", status.Phase,
			"reason", condition(status.Conditions, v1beta1.ConditionReady).Reason, "was", before.Status.Phase)
	}
	return nil
}

// tell tells that a condition has come to have another reason, if that is news: that a TensorBoard starts or ends is on
// the way to it. It returns whether it did.
func (r *reconciler) tell(
	ctx context.Context, tb *v1beta1.TensorBoard, before, after *v1beta1.TensorBoardCondition,
) bool {
	switch {
	case before != nil && before.Reason == after.Reason, onItsWay[after.Reason]:
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

// onItsWay are the reasons that are steps from one state to another.
var onItsWay = map[string]bool{
	v1beta1.ReasonQueued: true, schedulerv1beta1.ReasonScheduling: true, schedulerv1beta1.ReasonTooFewPods: true,
	batchv1beta1.ReasonCreating: true, batchv1beta1.ReasonPending: true, batchv1beta1.ReasonRestarting: true,
	v1beta1.ReasonStopping: true, v1beta1.ReasonNotRunning: true,
}

// suspend sets spec.suspend, unless the TensorBoard was changed since it was read. The status says already why.
func (r *reconciler) suspend(ctx context.Context, tb *v1beta1.TensorBoard) error {
	before := tb.DeepCopy()
	tb.Spec.Suspend = true
	if err := r.client.Patch(ctx, tb,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("suspending a TensorBoard that nobody looks at: %w", err)
	}
	return nil
}
