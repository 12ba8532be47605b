package scheduler

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/loop"
)

// reclaim is a controller that sets reclaimable on Volcano's queues. Volcano may reclaim resources from a queue only
// while a queue with a higher priority needs them.
//
// If any queue is reclaimable, each session of Volcano asks the extender about every waiting pod and every node.
// Without this controller, sessions would take seconds instead of milliseconds, even while all queues have the same
// priority and nothing can be reclaimed.
type reclaim struct {
	client client.Client
	clock  clock.PassiveClock
}

func (r *reclaim) setupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	return builder.ControllerManagedBy(mgr).
		Named("reclaim").
		Watches(&v1beta1.Queue{}, all).
		Watches(&v1beta1.PodGroup{}, all).
		WithOptions(loop.Options(1)).
		Complete(r)
}

// Reconcile sets reclaimable on all queues of Volcano that belong to a Queue. It returns an error if the reconcile
// must be retried.
func (r *reclaim) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	cycle := loop.Cycle[reclaimView, []change]{
		Clock:   r.clock,
		Observe: r.observe,
		Decide:  reclaimView.decide,
		Act:     r.execute,
	}
	return cycle.Run(ctx)
}

func (r *reclaim) observe(ctx context.Context) (reclaimView, error) {
	var queues v1beta1.QueueList
	var groups v1beta1.PodGroupList
	for _, list := range []client.ObjectList{&queues, &groups} {
		err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
		if err != nil {
			return reclaimView{}, err
		}
	}
	view := reclaimView{
		Queues: queues.Items, Groups: groups.Items, There: map[string]*volcanov1beta1.Queue{}, IsServed: true,
	}
	for i := range view.Queues {
		var there volcanov1beta1.Queue
		err := r.client.Get(ctx, client.ObjectKeyFromObject(&view.Queues[i]), &there)
		switch {
		case err == nil:
			view.There[there.Name] = &there
		case meta.IsNoMatchError(err):
			view.IsServed = false
			return view, nil
		case !apierrors.IsNotFound(err): // skip a missing queue until a Queue or PodGroup changes
			return view, err
		}
	}
	if neediest(view.Queues, view.Groups) == nil {
		return view, nil // without reclaimable queues, nothing reads Nodes
	}
	var err error
	view.Nodes, err = resourcesOfNodes(ctx, r.client)
	return view, err
}

// execute makes the changes. An error with one queue does not block the others.
func (r *reclaim) execute(ctx context.Context, view reclaimView, changes []change) (loop.Requeue, error) {
	if !view.IsServed {
		return loop.Requeue{At: r.clock.Now().Add(pollInterval)}, nil
	}
	var errs []error
	for _, c := range changes {
		if err := r.client.Patch(ctx, c.After, client.MergeFrom(c.Before)); err != nil {
			errs = append(errs, fmt.Errorf("updating queue %s of Volcano: %w", c.After.GetName(), err))
		}
	}
	return loop.Requeue{}, errors.Join(errs...)
}
