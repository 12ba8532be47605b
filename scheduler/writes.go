package scheduler

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes records, for each queue, the versions of PodGroups and pods that the controller has replaced. While the
// cache still has one of these versions, the controller must not decide about the queue: the queue could exceed its
// quota. By default, controller-runtime's client waits in each list for the writes of all queues. With this record, a
// queue waits only for its own writes.
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

// note records, for a queue, that a write has replaced a version of an object. The parameter empty is an empty object
// of the same kind. A write that changes nothing replaces no version.
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

// areShown reports whether the cache shows all writes of the queue: it has none of the replaced versions. The writes
// of an object that is gone from the cache count as shown. Calls for the same queue must not overlap. That cannot
// happen, because only one worker at a time reconciles a queue.
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
