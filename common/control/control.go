// Package control is what the reconcilers of all controllers have in common.
package control

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/fair"
)

const (
	// timeout ends a reconcile that waits for an API server or a cache that does not answer.
	timeout = time.Minute
	// minRetry and maxRetry bound the time between two tries of what the API server refuses, such as a pod over quota. The
	// upper bound is what may be lost after the reason is gone.
	minRetry = 50 * time.Millisecond
	maxRetry = time.Minute
)

// Options returns those of a controller that reconciles so many objects at the same time. Namespaces share the workers.
func Options(workers int) controller.Options {
	type limiter = workqueue.TypedRateLimiter[reconcile.Request]
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   timeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, maxRetry),
		NewQueue: func(name string, l limiter) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return fair.NewQueue(name, l, max(1, workers)) // the controller takes less than one worker for one
		},
	}
}
