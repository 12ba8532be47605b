package jobs

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/framework"
)

// Follow calls a function with each state of a job that it sees, beginning with the current one, until the function
// returns true. It continues after errors that can pass, such as a lost connection. If the job is deleted, or another
// job has its name now, the error is one of apierrors.IsNotFound.
func Follow(
	ctx context.Context, c client.WithWatch, kind *Kind, namespace, name string, uid types.UID, see func(Job) (done bool),
) error {
	notFound := apierrors.NewNotFound(kind.GroupVersion().WithResource(kind.Resource).GroupResource(), name)
	seeIt := func(object framework.Job) (bool, error) {
		if object.GetUID() != uid {
			return false, notFound
		}
		return see(Job{Job: object, Kind: kind}), nil
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		job := kind.New()
		switch err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return false, err
		case err != nil:
			return false, nil // the connection was lost, and the next try can succeed
		}
		if done, err := seeIt(job); done || err != nil {
			return done, err
		}
		events, err := c.Watch(ctx, kind.NewList(), client.InNamespace(namespace), &client.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", name),
			Raw:           &metav1.ListOptions{ResourceVersion: job.GetResourceVersion()},
		})
		if err != nil {
			return false, nil // a user who may not watch jobs reads them each second
		}
		defer events.Stop()
		for event := range events.ResultChan() {
			job, ok := event.Object.(framework.Job)
			switch {
			case event.Type == watch.Deleted:
				return false, notFound
			case !ok: // the watch has ended with an error, for example since the version is too old
				return false, nil
			}
			if done, err := seeIt(job); done || err != nil {
				return done, err
			}
		}
		return false, nil
	})
}
