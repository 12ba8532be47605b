package command

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/common/framework"
)

// reconnectDelays returns the times to wait before each restart of a watch or of a log stream that has ended.
func reconnectDelays() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4, Cap: 8 * time.Second}
}

// observe calls the function seen with the objects that match the options, in a map from names to objects. It calls
// the function at the beginning and again after each change, until the function returns true or an error. The
// function must not keep the map. If the connection is lost, observe reconnects. It returns the error of the
// function. It also returns an error if the context ends, if the user may not read the objects, or if the cluster
// does not serve their kind.
func (c *cluster) observe(
	ctx context.Context, list client.ObjectList, seen func(map[string]client.Object) (bool, error),
	options ...client.ListOption,
) error {
	delays := reconnectDelays()
	var done bool
	var end error
	for {
		stopped, err := c.observeOnce(ctx, list, options, func(objects map[string]client.Object) bool {
			delays = reconnectDelays()
			done, end = seen(objects)
			return done || end != nil
		})
		switch {
		case stopped:
			return end
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isFinal(err):
			return err
		}
		select { // wait even without an error: a proxy can end each watch immediately
		case <-time.After(delays.Step()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isFinal reports whether a read that failed with the error would fail again if it were repeated.
func isFinal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
		meta.IsNoMatchError(err)
}

// observeOnce lists the objects and watches them until the function seen returns true, or until the API server ends
// the watch. It reports whether the function returned true.
func (c *cluster) observeOnce(
	ctx context.Context, empty client.ObjectList, options []client.ListOption,
	seen func(map[string]client.Object) bool,
) (bool, error) {
	list := empty.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy has the same type
	if err := c.List(ctx, list, options...); err != nil {
		return false, err
	}
	objects := map[string]client.Object{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(client.Object) //nolint:forcetypeassert // an item of a list of objects
		objects[object.GetName()] = object
		return nil
	})
	if err != nil {
		return false, err
	}
	if seen(objects) {
		return true, nil
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	events, err := c.Watch(ctx, list, append(slices.Clip(options), from)...)
	if err != nil {
		return false, err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(client.Object)
		if event.Type == watch.Error || !ok {
			return false, apierrors.FromObject(event.Object)
		}
		objects[object.GetName()] = object
		if event.Type == watch.Deleted {
			delete(objects, object.GetName())
		}
		if seen(objects) {
			return true, nil
		}
	}
	return false, nil // the API server ends each watch after some minutes
}

// observeJob calls the function seen with the job at the beginning and again after each change, until the function
// returns true or an error. If the job is gone, the function gets nil, even if another job has the name of the job.
func (c *cluster) observeJob(ctx context.Context, job jobs.Job, seen func(*jobs.Job) (bool, error)) error {
	return c.observe(ctx, job.Kind.NewList(), func(objects map[string]client.Object) (bool, error) {
		return seen(jobIn(objects, job))
	}, client.InNamespace(job.GetNamespace()), client.MatchingFields{"metadata.name": job.GetName()})
}

// jobIn returns the newest state of a job among objects, or nil if it is gone.
func jobIn(objects map[string]client.Object, job jobs.Job) *jobs.Job {
	object, ok := objects[job.GetName()]
	if !ok || object.GetUID() != job.GetUID() {
		return nil
	}
	job.Job = object.(framework.Job) //nolint:forcetypeassert // a list of jobs has jobs
	return &job
}
