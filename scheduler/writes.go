package scheduler

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes records which versions of PodGroups and pods the controller has replaced, by queue. A queue must not be
// planned while the cache has one of these versions, or it could exceed its quota. A queue does not wait for the writes
// of other queues, unlike the lists of controller-runtime's client.
type writes struct {
	mu       sync.Mutex
	replaced map[string][]version
}

// version identifies an object as it was before a write.
type version struct {
	empty           client.Object // an empty object of the same kind
	key             client.ObjectKey
	resourceVersion string
}

// note records the version of an object of the queue that a write has replaced. The empty object must have the same
// kind. A write that changes nothing replaces no version.
func (w *writes) note(queue string, empty, before, after client.Object) {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replaced == nil {
		w.replaced = map[string][]version{}
	}
	w.replaced[queue] = append(w.replaced[queue], version{
		empty: empty, key: client.ObjectKeyFromObject(before), resourceVersion: before.GetResourceVersion(),
	})
}

// areShown reports whether the cache shows all writes of the queue, which means that it has none of the replaced
// versions. An object that is gone from the cache counts as shown. There must be only one call at a time for each
// queue, which holds because a queue is reconciled by one worker at a time.
func (w *writes) areShown(ctx context.Context, cache client.Reader, queue string) (bool, error) {
	w.mu.Lock()
	pending := w.replaced[queue]
	delete(w.replaced, queue)
	w.mu.Unlock()
	for i, v := range pending {
		object, _ := v.empty.DeepCopyObject().(client.Object)
		err := cache.Get(ctx, v.key, object, client.DisableReadYourWritesConsistency)
		if client.IgnoreNotFound(err) != nil || err == nil && object.GetResourceVersion() == v.resourceVersion {
			w.mu.Lock()
			w.replaced[queue] = pending[i:]
			w.mu.Unlock()
			return false, client.IgnoreNotFound(err)
		}
	}
	return true, nil
}
