// Package loop contains the reconcile loop of all controllers, and other code that their reconcilers share.
package loop

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/fair"
)

const (
	// timeout is how long one reconcile may take. It ends reconciles that wait for an API server or a cache.
	timeout = time.Minute
	// minRetry and maxRetry are the bounds of the backoff after an error, such as a timeout of the API server. After the
	// cause is gone, up to maxRetry can pass until the next retry.
	minRetry = 50 * time.Millisecond
	maxRetry = time.Minute
)

// Options returns the options of a controller with the given number of workers. Each worker reconciles one object at
// a time. Namespaces share the workers: see package fair.
func Options(workers int) controller.Options {
	type limiter = workqueue.TypedRateLimiter[reconcile.Request]
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   timeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, maxRetry),
		NewQueue: func(name string, l limiter) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return fair.NewQueue(name, l, max(1, workers)) // controller-runtime treats fewer than one worker as one
		},
	}
}
