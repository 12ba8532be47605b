package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/owned"
)

// tensorBoardWatch lets the TensorBoards of jobs be read and wakes their jobs. Their kind belongs to another controller, which may be
// installed later than this one, or never, or be removed: so they have a cache of their own, which is started when the first job
// wants a TensorBoard and the kind is there. The manager's cache would have to know the kind from the start.
type tensorBoardWatch struct {
	// apiReader finds out whether TensorBoards can be read.
	apiReader client.Reader
	// start starts the cache, which from then on wakes the jobs.
	start func() (cache.Cache, error)
	retry time.Duration
	clock clock.PassiveClock

	// synced is the cache once it can be read.
	synced atomic.Pointer[cache.Cache]

	// mu guards what follows.
	mu sync.Mutex
	// cache is nil until it was started.
	cache cache.Cache
	// nextLook is when to find out again, problem what was found last.
	nextLook time.Time
	problem  *owned.RefusedError
}

// newTensorBoardWatch returns a watch that starts in the manager, for a controller of jobs.
func (r *Reconciler[J]) newTensorBoardWatch(mgr manager.Manager, jobs controller.Controller) *tensorBoardWatch {
	options := cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{batchv1beta1.LabelJobKind: r.gvk.Kind}),
		DefaultTransform:     stripTensorBoard,
	}
	if r.options.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{r.options.Namespace: {}}
	}
	return &tensorBoardWatch{
		apiReader: mgr.GetAPIReader(),
		retry:     r.options.TensorBoardRetry,
		clock:     r.options.Clock,
		start: func() (cache.Cache, error) {
			started, err := cache.New(mgr.GetConfig(), options)
			if err != nil {
				return nil, err
			}
			owner := handler.TypedEnqueueRequestForOwner[*tensorboardv1beta1.TensorBoard](
				mgr.GetScheme(), mgr.GetRESTMapper(), r.framework.NewJob(), handler.OnlyControllerOwner())
			if err := jobs.Watch(source.Kind(started, &tensorboardv1beta1.TensorBoard{}, owner, tensorBoardChanges)); err != nil {
				return nil, err
			}
			return started, mgr.Add(started)
		},
	}
}

// reader returns what TensorBoards can be read from without waiting, or else why they cannot be read. It returns neither while that
// is not known yet.
func (w *tensorBoardWatch) reader(ctx context.Context, namespace string) (client.Reader, *owned.RefusedError) {
	if synced := w.synced.Load(); synced != nil {
		return *synced, nil
	}
	if !w.mu.TryLock() {
		return nil, nil // somebody is finding out
	}
	defer w.mu.Unlock()
	if w.cache != nil {
		informer, err := w.cache.GetInformer(ctx, &tensorboardv1beta1.TensorBoard{}, cache.BlockUntilSynced(false))
		if err == nil && informer.HasSynced() {
			w.synced.Store(&w.cache)
			return w.cache, nil
		}
	}
	if !w.clock.Now().Before(w.nextLook) {
		w.look(ctx, namespace)
	}
	return nil, w.problem
}

// look finds out why TensorBoards cannot be read, and starts the cache if they can.
func (w *tensorBoardWatch) look(ctx context.Context, namespace string) {
	w.nextLook, w.problem = w.clock.Now().Add(w.retry), nil
	err := w.apiReader.List(ctx, &tensorboardv1beta1.TensorBoardList{}, client.InNamespace(namespace), client.Limit(1))
	if err == nil && w.cache == nil {
		w.cache, err = w.start()
	}
	switch {
	case err == nil:
	case isNotFoundOrNotInstalled(err):
		w.problem = notInstalled(err)
	case owned.IsRefused(err):
		w.problem = &owned.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading TensorBoards: %w", err)}
	default:
		w.nextLook = w.clock.Now().Add(tensorBoardDelay)
		ctrllog.FromContext(ctx).Error(err, "finding out whether TensorBoards are installed")
	}
}

// tensorBoardChanges lets through what the status of a job reports of its TensorBoard, and what the job wants of it.
var tensorBoardChanges = predicate.TypedFuncs[*tensorboardv1beta1.TensorBoard]{
	UpdateFunc: func(e ctrlevent.TypedUpdateEvent[*tensorboardv1beta1.TensorBoard]) bool {
		return e.ObjectOld.Generation != e.ObjectNew.Generation ||
			e.ObjectOld.UID != e.ObjectNew.UID ||
			e.ObjectOld.DeletionTimestamp.IsZero() != e.ObjectNew.DeletionTimestamp.IsZero() ||
			!equality.Semantic.DeepEqual(metav1.GetControllerOf(e.ObjectOld), metav1.GetControllerOf(e.ObjectNew)) ||
			!equality.Semantic.DeepEqual(statusOf(e.ObjectOld, nil), statusOf(e.ObjectNew, nil))
	},
}

// stripTensorBoard keeps of a TensorBoard what the engine reads.
func stripTensorBoard(object any) (any, error) {
	tensorBoard, ok := object.(*tensorboardv1beta1.TensorBoard)
	if !ok {
		return object, nil
	}
	tensorBoard.ManagedFields = nil
	tensorBoard.Annotations = nil
	status := tensorboardv1beta1.TensorBoardStatus{Phase: tensorBoard.Status.Phase}
	if ready := readyCondition(tensorBoard); ready.Type != "" {
		ready.LastProbeTime = nil
		status.Conditions = []tensorboardv1beta1.TensorBoardCondition{ready}
	}
	tensorBoard.Status = status
	return tensorBoard, nil
}
