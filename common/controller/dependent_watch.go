package controller

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
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// dependentDelay is how long to wait after a request about a dependent that failed and may well succeed soon.
const dependentDelay = 2 * time.Second

// dependentKind is a kind of objects that jobs own and another controller is for.
type dependentKind[T client.Object] struct {
	// object and list are empty ones.
	object T
	list   client.ObjectList
	// reported is what a job reads of the status: a change of it wakes the job.
	reported func(T) any
	// strip keeps of the status what the job controller reads.
	strip func(T)
	// notInstalled returns the problem of a job when the CRD is missing.
	notInstalled func(error) *report.RefusedError
}

// changes lets through what may matter to the job.
func (k dependentKind[T]) changes() predicate.TypedFuncs[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e ctrlevent.TypedUpdateEvent[T]) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
			!equality.Semantic.DeepEqual(metav1.GetControllerOf(e.ObjectOld), metav1.GetControllerOf(e.ObjectNew)) ||
			!equality.Semantic.DeepEqual(k.reported(e.ObjectOld), k.reported(e.ObjectNew))
	}}
}

// transform keeps of an object what the job controller reads, for a cache. What a cache knows only the name of stays as it is.
func (k dependentKind[T]) transform(object any) (any, error) {
	if dependent, ok := object.(T); ok {
		dependent.SetManagedFields(nil)
		dependent.SetAnnotations(nil)
		k.strip(dependent)
	}
	return object, nil
}

// dependentWatch lets the dependents of jobs be read, of one kind, and wakes their jobs. The kind belongs to another controller, which
// may be installed later than this one, or never, or be removed: so they have a cache of their own, which is started when the first
// job wants one and the kind is there. The manager's cache would have to know the kind from the start.
type dependentWatch struct {
	// apiReader finds out whether they can be read.
	apiReader client.Reader
	// object and list are empty ones.
	object client.Object
	list   client.ObjectList
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

// newDependentWatch returns a watch that starts in the manager, for a controller of jobs.
func newDependentWatch[J framework.Job, T client.Object](
	r *Reconciler[J], mgr manager.Manager, jobs controller.Controller, kind dependentKind[T],
) *dependentWatch {
	options := cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{batchv1beta1.LabelJobKind: r.gvk.Kind}),
		DefaultTransform:     kind.transform,
	}
	if r.options.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{r.options.Namespace: {}}
	}
	return &dependentWatch{
		apiReader:    mgr.GetAPIReader(),
		object:       kind.object,
		list:         kind.list,
		notInstalled: kind.notInstalled,
		retry:        r.options.DependentRetry,
		clock:        r.options.Clock,
		start: func() (cache.Cache, error) {
			started, err := cache.New(mgr.GetConfig(), options)
			if err != nil {
				return nil, err
			}
			owner := handler.TypedEnqueueRequestForOwner[T](mgr.GetScheme(), mgr.GetRESTMapper(), r.framework.NewJob(), handler.OnlyControllerOwner())
			if err := jobs.Watch(source.Kind(started, kind.object, owner, kind.changes())); err != nil {
				return nil, err
			}
			return started, mgr.Add(started)
		},
	}
}

// reader returns what the dependents can be read from without waiting, or else why they cannot be read. It returns neither while that
// is not known yet.
func (w *dependentWatch) reader(ctx context.Context, namespace string) (client.Reader, *report.RefusedError) {
	if synced := w.synced.Load(); synced != nil {
		return *synced, nil
	}
	if !w.mu.TryLock() {
		return nil, nil // somebody is finding out
	}
	defer w.mu.Unlock()
	if w.cache != nil {
		informer, err := w.cache.GetInformer(ctx, w.object, cache.BlockUntilSynced(false))
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
func (w *dependentWatch) look(ctx context.Context, namespace string) {
	w.nextLook, w.problem = w.clock.Now().Add(w.retry), nil
	list := w.list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // the copy of a client.ObjectList is one
	err := w.apiReader.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
	if err == nil && w.cache == nil {
		w.cache, err = w.start()
	}
	switch {
	case err == nil:
	case isNotFoundOrNotInstalled(err):
		w.problem = w.notInstalled(err)
	case owned.IsRefused(err):
		w.problem = &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading objects of another controller: %w", err)}
	default:
		w.nextLook = w.clock.Now().Add(dependentDelay)
		ctrllog.FromContext(ctx).Error(err, "finding out whether a kind is installed")
	}
}
