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
	toolscache "k8s.io/client-go/tools/cache"
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
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/report"
)

const (
	// retryDelay is how long to wait before a failed request about a dependent is retried.
	retryDelay = 2 * time.Second
)

// changes returns a predicate that drops an update of a dependent if the update cannot matter to the job. It passes
// all updates of a large dependent, because the metadata in the cache does not show whether an update matters.
func (k kind[T]) changes() predicate.TypedFuncs[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e ctrlevent.TypedUpdateEvent[T]) bool {
		isLarge := large.Is(e.ObjectOld) || large.Is(e.ObjectNew)
		return isLarge && e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() ||
			e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
			!equality.Semantic.DeepEqual(metav1.GetControllerOf(e.ObjectOld), metav1.GetControllerOf(e.ObjectNew)) ||
			!equality.Semantic.DeepEqual(k.reported(e.ObjectOld), k.reported(e.ObjectNew))
	}}
}

// transform is the transform function of the cache. It removes the fields that the job controller does not read, and
// keeps only the metadata of a large dependent. It does not change tombstones.
func (k kind[T]) transform(object any) (any, error) {
	return large.Kind[T]{Most: maxCached, New: k.newObject, Strip: k.stripAll}.Transform(object)
}

func (k kind[T]) stripAll(dependent T) {
	dependent.SetManagedFields(nil)
	dependent.SetAnnotations(bounded.Pick(dependent.GetAnnotations(), k.annotations, admission.MaxAnnotation))
	dependent.SetLabels(nil)
	dependent.SetFinalizers(nil)
	var owners []metav1.OwnerReference
	if owner := bounded.Owner(dependent); owner != nil {
		owners = []metav1.OwnerReference{*owner}
	}
	dependent.SetOwnerReferences(owners)
	k.strip(dependent)
}

// maxCached is the size of the largest dependent that the cache holds completely, in bytes of memory. A larger
// dependent is read from the API server.
const maxCached = 16 << 10

// Transforms returns the transform functions of the caches of dependents. The keys are empty objects of the kinds.
// The manager's cache does not use these functions, because it does not hold dependents.
func Transforms() map[client.Object]toolscache.TransformFunc {
	return map[client.Object]toolscache.TransformFunc{
		&schedulerv1beta1.PodGroup{}:      podGroupKind().transform,
		&tensorboardv1beta1.TensorBoard{}: tensorBoardKind().transform,
		&kueuev1beta2.Workload{}:          workloadKind().transform,
	}
}

// watch is the state of the cache of the dependents of one kind, whose events requeue their jobs. The kind can be
// installed later than the job controller, or never, and it can be removed. So the dependents have a separate cache,
// which is started when the kind is installed and the first job needs a dependent. With the cache of the manager, the
// kind would have to be installed from the start.
type watch struct {
	// start starts the cache. It is nil without a manager: the dependents are then read with the client.
	start func() (cache.Cache, error)

	// synced is the cache, or nil until the cache has synced.
	synced atomic.Pointer[cache.Cache]

	// mu guards the following fields.
	mu sync.Mutex
	// cache is nil until it was started.
	cache cache.Cache
	// nextLook is the earliest time of the next check whether the dependents can be read.
	nextLook time.Time
	// problem is the result of the last check. Nil means that the check found no problem, or that it failed.
	problem *report.RefusedError
}

// Jobs describes the jobs of a controller.
type Jobs struct {
	// Kind is the kind of the jobs.
	Kind schema.GroupVersionKind
	// Empty is an empty job.
	Empty client.Object
	// Controller reconciles the jobs.
	Controller controller.Controller
	// Namespace is the only namespace that the controller works in. Empty means all namespaces.
	Namespace string
}

// Watch makes changes of dependents requeue their jobs. The watch starts when the kind is installed and the first job
// needs a dependent. From then on dependents are read from a cache.
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
	s.start = func() (cache.Cache, error) {
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
	}
}

// reader returns a reader of the dependents. If the dependents cannot be read, it returns nil and the problem. If it
// is not known yet whether they can be read, both results are nil. The method does not wait for the cache to sync.
func (s *store[T]) reader(ctx context.Context, namespace string) (client.Reader, *report.RefusedError) {
	if s.start == nil {
		return s.Client, nil
	}
	if synced := s.synced.Load(); synced != nil {
		return *synced, nil
	}
	if !s.mu.TryLock() {
		return nil, nil // another reconcile is checking
	}
	defer s.mu.Unlock()
	if s.cache != nil {
		informer, err := s.cache.GetInformer(ctx, s.newObject(), cache.BlockUntilSynced(false))
		if err == nil && informer.HasSynced() {
			s.synced.Store(&s.cache)
			return s.cache, nil
		}
	}
	if !s.Clock.Now().Before(s.nextLook) {
		s.look(ctx, namespace)
	}
	return nil, s.problem
}

// look checks whether the dependents can be read. If they can, it starts the cache. If the kind is not installed, or
// if the controller has no permission to read it, look sets s.problem. After any other error, the next check follows
// after retryDelay.
func (s *store[T]) look(ctx context.Context, namespace string) {
	s.nextLook, s.problem = s.Clock.Now().Add(s.Retry), nil
	err := s.APIReader.List(ctx, s.newList(), client.InNamespace(namespace), client.Limit(1))
	if err == nil && s.cache == nil {
		s.cache, err = s.start()
	}
	switch {
	case err == nil:
	case isNotFoundOrNotInstalled(err):
		s.problem = s.notInstalled(err)
	case owned.IsRefused(err):
		s.problem = &report.RefusedError{
			Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading objects of another controller: %w", err),
		}
	default:
		s.nextLook = s.Clock.Now().Add(retryDelay)
		ctrllog.FromContext(ctx).Error(err, "Failed to check whether a kind is installed")
	}
}
