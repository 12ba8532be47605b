package scheduler

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes remembers which versions of PodGroups and pods the controller has replaced, by queue. A queue is not planned
// from any of these versions: it would get more than its quota. A queue does not wait for the writes of other queues,
// while lists of controller-runtime's client do.
type writes struct {
	mu       sync.Mutex
	replaced map[string][]version
}

// version is an object as it was before a write.
type version struct {
	empty           client.Object // of the kind
	key             client.ObjectKey
	resourceVersion string
}

// note remembers the version that a write of an object of the queue has replaced. The kind is that of the empty object.
// A write that changes nothing replaces no version.
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

// areShown reports whether the cache shows all writes of the queue: none of the versions that they have replaced. An
// object that is gone from the cache is not one of them. No two reconciles of one queue run at the same time.
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
