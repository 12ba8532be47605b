package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// pollInterval is how often the controller checks whether missing CRDs of Volcano exist now, and whether Volcano's
// own queues must be opened.
const pollInterval = 5 * time.Second

// setupVolcano sets up the parts of the controller that Volcano's scheduler needs: the loop that opens Volcano's own
// queues, the reclaim controller, and the extender. It returns an error if the extender cannot listen on its address.
func setupVolcano(ctx context.Context, mgr ctrl.Manager, observe observer, options Options) error {
	queues := &ownQueues{client: mgr.GetClient()}
	reclaim := &reclaim{client: mgr.GetClient(), clock: options.Clock}
	err := errors.Join(mgr.Add(manager.RunnableFunc(queues.open)), reclaim.setupWithManager(mgr))
	if err != nil {
		return err
	}
	address := options.ExtenderBindAddress
	if address == "0" {
		return nil
	}
	server, err := newExtender(mgr.GetClient(), observe).server(ctx, address)
	if err != nil {
		return fmt.Errorf("starting the extender for Volcano at --extender-bind-address: %w", err)
	}
	return mgr.Add(server)
}

// ownQueues opens Volcano's own queues. A new queue has no state, and Volcano schedules nothing from it until its state
// is set.
type ownQueues struct {
	client client.Client
}

// open opens each queue as soon as it exists. It checks the queues regularly until the context ends.
func (o *ownQueues) open(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		for _, name := range volcanosOwn {
			if err := o.openIfStateless(ctx, name); err != nil {
				logf.FromContext(ctx).Error(err, "Cannot open a queue of Volcano", "queue", name)
			}
		}
		return false, nil
	})
}

// openIfStateless opens a queue of Volcano that has no state, unless there is a Queue of the same name.
func (o *ownQueues) openIfStateless(ctx context.Context, name string) error {
	err := o.client.Get(ctx, client.ObjectKey{Name: name}, &v1beta1.Queue{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err // if the Queue exists, its reconciler sets the state
	}
	var there volcanov1beta1.Queue
	err = o.client.Get(ctx, client.ObjectKey{Name: name}, &there)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || err == nil && there.Status.State != "" {
		return nil
	}
	if err != nil {
		return err
	}
	state := inState(&there, volcanov1beta1.QueueStateOpen)
	if err := o.client.Status().Patch(ctx, state.After, client.MergeFrom(state.Before)); err != nil {
		return fmt.Errorf("opening queue %s of Volcano: %w", name, err)
	}
	return nil
}
