package dependents

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

const (
	// retryDelay is how long to wait after a request about a dependent that failed and can succeed soon.
	retryDelay = 2 * time.Second
	// conflictDelay is how long to wait for the cache after a write that met a newer version of the job.
	conflictDelay = 100 * time.Millisecond
)

// changes lets through what may matter to the job.
func (k kind[T]) changes() predicate.TypedFuncs[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e ctrlevent.TypedUpdateEvent[T]) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
			!equality.Semantic.DeepEqual(metav1.GetControllerOf(e.ObjectOld), metav1.GetControllerOf(e.ObjectNew)) ||
			!equality.Semantic.DeepEqual(k.reported(e.ObjectOld), k.reported(e.ObjectNew))
	}}
}

// transform keeps of an object what the job controller reads, for a cache. It does not change the tombstone of an
// object that is gone.
func (k kind[T]) transform(object any) (any, error) {
	if dependent, ok := object.(T); ok {
		dependent.SetManagedFields(nil)
		dependent.SetAnnotations(nil)
		dependent.SetLabels(nil)
		dependent.SetFinalizers(nil)
		var owners []metav1.OwnerReference
		if owner := metav1.GetControllerOf(dependent); owner != nil {
			owners = []metav1.OwnerReference{*owner}
		}
		dependent.SetOwnerReferences(owners)
		k.strip(dependent)
	}
	return object, nil
}

// watch lets the dependents of one kind be read, and wakes their jobs. The kind may be installed later than the job
// controller, or never, or be removed. So they have a cache of their own, which is started when the first job wants one
// and the kind is there. The manager's cache would have to know the kind from the start.
type watch struct {
	// apiReader finds out whether they can be read.
	apiReader client.Reader
	// newObject and newList return empty ones.
	newObject func() client.Object
	newList   func() client.ObjectList
	// notInstalled returns the problem of a job when the CRD is missing.
	notInstalled func(error) *report.RefusedError
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
	problem  *report.RefusedError
}

// Jobs are the jobs of a controller.
type Jobs struct {
	// Kind of the jobs.
	Kind schema.GroupVersionKind
	// Empty is an empty job.
	Empty client.Object
	// Controller reconciles the jobs.
	Controller controller.Controller
	// Namespace is the one namespace that the controller works in. Empty means all.
	Namespace string
	// Retry is how long to wait before a problem is looked at again.
	Retry time.Duration
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Watch makes changes of dependents wake their jobs, once their kind is installed. From then on they are read from a
// cache.
func (s *store[T]) Watch(mgr manager.Manager, jobs Jobs) {
	options := cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{batchv1beta1.LabelJobKind: jobs.Kind.Kind}),
		DefaultTransform:     s.transform,
	}
	if jobs.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{jobs.Namespace: {}}
	}
	s.watch = &watch{
		apiReader:    mgr.GetAPIReader(),
		newObject:    func() client.Object { return s.newObject() },
		newList:      s.newList,
		notInstalled: s.notInstalled,
		retry:        jobs.Retry,
		clock:        jobs.Clock,
		start: func() (cache.Cache, error) {
			started, err := cache.New(mgr.GetConfig(), options)
			if err != nil {
				return nil, err
			}
			owner := handler.TypedEnqueueRequestForOwner[T](
				mgr.GetScheme(), mgr.GetRESTMapper(), jobs.Empty, handler.OnlyControllerOwner())
			if err := jobs.Controller.Watch(source.Kind(started, s.newObject(), owner, s.changes())); err != nil {
				return nil, err
			}
			return started, mgr.Add(started)
		},
	}
}

// reader returns what the dependents can be read from without waiting, or else why they cannot be read. It returns
// neither while that is not known yet.
func (w *watch) reader(ctx context.Context, namespace string) (client.Reader, *report.RefusedError) {
	if synced := w.synced.Load(); synced != nil {
		return *synced, nil
	}
	if !w.mu.TryLock() {
		return nil, nil // somebody is finding out
	}
	defer w.mu.Unlock()
	if w.cache != nil {
		informer, err := w.cache.GetInformer(ctx, w.newObject(), cache.BlockUntilSynced(false))
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

// look finds out why the dependents cannot be read, and starts the cache if they can.
func (w *watch) look(ctx context.Context, namespace string) {
	w.nextLook, w.problem = w.clock.Now().Add(w.retry), nil
	err := w.apiReader.List(ctx, w.newList(), client.InNamespace(namespace), client.Limit(1))
	if err == nil && w.cache == nil {
		w.cache, err = w.start()
	}
	switch {
	case err == nil:
	case isNotFoundOrNotInstalled(err):
		w.problem = w.notInstalled(err)
	case owned.IsRefused(err):
		w.problem = &report.RefusedError{
			Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading objects of another controller: %w", err),
		}
	default:
		w.nextLook = w.clock.Now().Add(retryDelay)
		ctrllog.FromContext(ctx).Error(err, "finding out whether a kind is installed")
	}
}
