package dependents

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Cluster has what is needed to read and write dependents.
type Cluster struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server itself.
	APIReader client.Reader
	// Clock is the source of the current time.
	Clock clock.PassiveClock
	// Retry is how long to wait before a problem is checked again, or a rejected request is repeated.
	Retry time.Duration
}

// kind describes one kind of dependents.
type kind[T client.Object] struct {
	// name is the name of the kind in messages.
	name string
	// newObject returns an empty object.
	newObject func() T
	// newList returns an empty list.
	newList func() client.ObjectList
	// reported returns the observed state that the job controller reads. If this state changes, the job is requeued.
	reported func(T) any
	// annotations are the annotations that the job controller reads.
	annotations []string
	// strip removes large fields that the job controller does not read.
	strip func(T)
	// notInstalled returns the problem of a job that needs a dependent while the CRD is not installed.
	notInstalled func(error) *report.RefusedError
	// keepsRunning reports whether the replicas of a job keep running after the CRD was removed. If only the dependent
	// was deleted, the replicas stop in any case.
	keepsRunning bool
}

// store reads and writes the dependents of one kind.
type store[T client.Object] struct {
	kind[T]
	Cluster
	watch

	large large.Reader
}

func newStore[T client.Object](k kind[T], cluster Cluster) store[T] {
	return store[T]{kind: k, Cluster: cluster, large: large.NewReader(cluster.APIReader, copiesOfLarge, largeMemory)}
}

const (
	// largeMemory is the maximum memory, in bytes, for all large dependents that are read at the same time.
	largeMemory = 64 << 20
	// copiesOfLarge is the number of copies of a large dependent in memory: the response of the API server, and the
	// decoded object.
	copiesOfLarge = 2
)

// noWait disables read-your-writes consistency. Otherwise, a read would wait until the cache shows the client's
// writes. It would wait in vain if the CRD was removed after the writes.
const noWait = client.DisableReadYourWritesConsistency

// observe reads the object with the given name from the cache. If live is true, it reads from the API server instead.
func (s *store[T]) observe(ctx context.Context, key client.ObjectKey, live bool) view.Snapshot[T] {
	// Get the reader even for a live read, because this call starts the watch. Without the watch, no event reports an
	// object that is created later.
	reader, problem := s.reader(ctx, key.Namespace)
	if reader == nil {
		return view.Snapshot[T]{Unknown: problem == nil, Problem: problem}
	}
	if live {
		reader = s.APIReader
	}
	return s.read(ctx, reader, key)
}

// read reads the object with the given name. It reads a large object from the API server, because the cache does not
// hold all of it.
func (s *store[T]) read(ctx context.Context, from client.Reader, key client.ObjectKey) view.Snapshot[T] {
	object := s.newObject()
	isLarge, release, err := s.large.Get(ctx, from, key, object, noWait)
	defer release()
	switch {
	case err == nil && isLarge:
		s.stripAll(object) // keep it small: it stays in memory for the whole reconcile
		return view.Snapshot[T]{Object: object}
	case err == nil:
		return view.Snapshot[T]{Object: object}
	case s.keepsRunning && isNotInstalled(err):
		return view.Snapshot[T]{Problem: s.notInstalled(err)}
	case isNotFoundOrNotInstalled(err):
		return view.Snapshot[T]{}
	case owned.IsRefused(err):
		return view.Snapshot[T]{Problem: &report.RefusedError{
			Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading %s %s: %w", s.name, key.Name, err),
		}}
	default:
		return view.Snapshot[T]{Unknown: true}
	}
}

// Apply makes a change of the dependent of a job. It returns a *report.RefusedError if the API server rejects a
// creation or an update, or if a creation fails because the CRD is not installed. If the object that Apply must update
// was changed or deleted after it was read, Apply returns a conflict. An update returns no error if the CRD was
// removed, and a deletion returns none if the object is gone. The error of a rejected deletion is not a
// *report.RefusedError, because a job that no longer needs pods does not report this error.
func (s *store[T]) Apply(ctx context.Context, job client.Object, change view.Change) error {
	switch change.Action {
	case batchv1beta1.ActionCreate:
		err := owned.Create(ctx, s.Client, s.APIReader, job, view.TheJob, change.Wanted, noWait)
		if isNotFoundOrNotInstalled(err) || apierrors.IsMethodNotSupported(err) { // the latter if the CRD is being deleted
			return s.notInstalled(err)
		}
		return err
	case batchv1beta1.ActionUpdate:
		var err error
		if change.OfStatus {
			err = loop.PatchStatus(ctx, s.Client, change.Seen, change.Wanted)
		} else {
			err = loop.Patch(ctx, s.Client, change.Seen, change.Wanted, noWait)
		}
		switch {
		case isNotInstalled(err):
			return nil
		case apierrors.IsNotFound(err):
			return apierrors.NewConflict(schema.GroupResource{Resource: s.name}, change.Seen.GetName(), err)
		}
		return owned.RefusedOrFailed(batchv1beta1.ReasonUpdateFailed,
			fmt.Sprintf("changing %s %s", s.name, change.Seen.GetName()), err)
	case batchv1beta1.ActionDelete:
		uid := change.Seen.GetUID()
		err := s.Client.Delete(ctx, change.Seen, client.Preconditions{UID: &uid}, noWait)
		if err == nil || apierrors.IsConflict(err) || isNotFoundOrNotInstalled(err) {
			return nil // the object with this UID is gone: its next event requeues the job
		}
		return fmt.Errorf("deleting %s %s: %w", s.name, change.Seen.GetName(), err)
	default:
		return nil
	}
}

// isNotFoundOrNotInstalled reports whether an object does not exist or its kind is not installed.
func isNotFoundOrNotInstalled(err error) bool {
	return apierrors.IsNotFound(err) || isNotInstalled(err)
}

// isNotInstalled reports whether an error means that a kind is not installed. If the CRD was removed, the API server
// does not know the path of the request. The body of its response then differs from the response for an object that
// does not exist.
func isNotInstalled(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
