package dependents

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// Cluster is how dependents are reached.
type Cluster struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server itself.
	APIReader client.Reader
}

// kind is a kind of objects that jobs own and that another controller acts on.
type kind[T client.Object] struct {
	// name is what messages call an object of the kind.
	name string
	// newObject and newList return empty ones.
	newObject func() T
	newList   func() client.ObjectList
	// reported is what a job reads of the status. A change of it wakes the job.
	reported func(T) any
	// strip keeps of the status what the job controller reads.
	strip func(T)
	// notInstalled returns the problem of a job when the CRD is missing.
	notInstalled func(error) *report.RefusedError
}

// store reads and writes the dependents of one kind.
type store[T client.Object] struct {
	kind[T]
	Cluster

	// watch is nil without a manager. Then the client reads the dependents.
	watch *watch
}

// The client does not wait for the cache to have what it writes here. It never might, if the kind is removed meanwhile.
const noWait = client.DisableReadYourWritesConsistency

// reader returns what the dependents can be read from without waiting, or else why they cannot be read. It returns
// neither while that is not known yet.
func (s *store[T]) reader(ctx context.Context, namespace string) (client.Reader, *report.RefusedError) {
	if s.watch == nil {
		return s.Client, nil
	}
	return s.watch.reader(ctx, namespace)
}

// read reads the object of a job's name.
func (s *store[T]) read(ctx context.Context, from client.Reader, job client.Object) View[T] {
	object := s.newObject()
	switch err := from.Get(ctx, client.ObjectKeyFromObject(job), object, noWait); {
	case err == nil:
		return View[T]{Object: object}
	case isNotFoundOrNotInstalled(err):
		return View[T]{}
	case owned.IsRefused(err):
		return View[T]{Problem: &report.RefusedError{
			Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading %s %s: %w", s.name, job.GetName(), err),
		}}
	default:
		return View[T]{Unknown: true}
	}
}

// write makes a change. What is gone is neither updated nor deleted, which is no error. A conflict means that somebody
// updated the object since it was read. Other errors of a creation are of type *report.RefusedError, unless another
// attempt can succeed.
func (s *store[T]) write(ctx context.Context, job client.Object, change plan.Change) error {
	switch change.Action {
	case batchv1beta1.ActionCreate:
		err := owned.Create(ctx, s.Client, s.APIReader, job, plan.TheJob, change.Wanted, noWait)
		if isNotFoundOrNotInstalled(err) {
			return s.notInstalled(err)
		}
		return err
	case batchv1beta1.ActionUpdate:
		patch := client.MergeFromWithOptions(change.Seen, client.MergeFromWithOptimisticLock{})
		err := s.Client.Patch(ctx, change.Wanted, patch, noWait)
		if err == nil || isNotFoundOrNotInstalled(err) {
			return nil
		}
		return fmt.Errorf("changing %s %s: %w", s.name, job.GetName(), err)
	case batchv1beta1.ActionDelete:
		uid := change.Seen.GetUID()
		err := s.Client.Delete(ctx, change.Seen, client.Preconditions{UID: &uid}, noWait)
		if err == nil || apierrors.IsConflict(err) || isNotFoundOrNotInstalled(err) {
			return nil // the object of this UID is gone; the next event of the cache has the job reconciled
		}
		return fmt.Errorf("deleting %s %s: %w", s.name, job.GetName(), err)
	default:
		return nil
	}
}

// isNotFoundOrNotInstalled reports whether there is no such object, or not even its kind.
func isNotFoundOrNotInstalled(err error) bool {
	var noKind *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	return apierrors.IsNotFound(err) || errors.As(err, &noKind) || errors.As(err, &noResource)
}
