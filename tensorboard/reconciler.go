package tensorboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

// probeTimeout is the time limit for the response of a sidecar.
const probeTimeout = 5 * time.Second

// theTensorBoard is how messages name the owner of an object.
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
func NewReconciler(cluster loop.Cluster, options Options) reconcile.Reconciler {
	return newReconciler(cluster, options)
}

func newReconciler(cluster loop.Cluster, options Options) *reconciler {
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
		WithOptions(loop.Options(r.options.Workers))
	if r.options.NetworkPolicies.Enabled {
		b.Owns(&networkingv1.NetworkPolicy{})
	}
	return b.Complete(r)
}

// Reconcile moves the state of a TensorBoard towards its spec. It returns an error if a retry can succeed.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var tb v1beta1.TensorBoard
	_, release, err := r.boards.Get(ctx, r.client, request.NamespacedName, &tb)
	if err != nil {
		return loop.Retry(client.IgnoreNotFound(err))
	}
	release = sync.OnceFunc(release)
	defer release()
	if !tb.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // its objects are garbage collected
	}
	wanted, err := newServer(&tb, &r.options)
	if err != nil {
		return reconcile.Result{}, err
	}
	release() // release the memory for this TensorBoard, because its sidecar can be slow to respond
	cycle := loop.Cycle[observation, decision]{
		Clock:   r.options.Clock,
		Observe: func(ctx context.Context) (observation, error) { return r.observe(ctx, &tb, wanted) },
		// The reads can take long, so the delays of the decision begin after them.
		Decide: func(seen observation) decision { return plan(&tb, seen, r.options, r.options.Clock.Now()) },
		Act: func(ctx context.Context, seen observation, d decision) (loop.Requeue, error) {
			return r.execute(ctx, &tb, seen, d)
		},
	}
	return cycle.Run(ctx)
}
