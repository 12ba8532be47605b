// Package observe follows jobs and their objects, as far as the user may read them, and makes snapshots of their
// state.
package observe

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// collection stores a part of each object of a list, and a watch keeps the collection up to date.
type collection[T any] struct {
	// keep returns the part of an object that the collection stores. It returns false if the collection must ignore the
	// object.
	keep    func(client.Object) (T, bool)
	changed func()

	mu    sync.Mutex
	items map[types.UID]T
	// isListed reports whether the list has been read. err is the error of the last request.
	isListed bool
	err      error
}

// newCollection returns an empty collection, which calls the function changed after each change.
func newCollection[T any](keep func(client.Object) (T, bool), changed func()) *collection[T] {
	return &collection[T]{keep: keep, changed: changed, items: map[types.UID]T{}}
}

// follow lists and watches objects, and stores them in the collection, until the context ends. If a request fails,
// follow tries again after some seconds. It logs nothing, since a message on stderr would destroy the page that the
// terminal shows.
func (c *collection[T]) follow(ctx context.Context, from client.WithWatch, list client.ObjectList,
	options client.ListOptions,
) {
	ctx = klog.NewContext(ctx, logr.Discard())
	newList := func() client.ObjectList {
		return list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy has the same type
	}
	with := func(raw metav1.ListOptions) *client.ListOptions {
		o := options
		o.Raw, o.Limit, o.Continue = &raw, raw.Limit, raw.Continue
		return &o
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			found := newList()
			err := from.List(ctx, found, with(raw))
			c.note(ctx, err)
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			changes, err := from.Watch(ctx, newList(), with(raw))
			c.note(ctx, err)
			return changes, err
		},
	}
	cache.NewReflectorWithOptions(source, nil, c, cache.ReflectorOptions{
		Logger: new(logr.Discard()), Name: "observe", TypeDescription: "objects",
		Backoff: &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 8 * time.Second},
	}).RunWithContext(ctx)
}

// note records the result of a request. It ignores results after the end of the context. It also ignores the errors
// after which the reflector immediately sends another request: an expired list, and an API server that cannot stream
// lists.
func (c *collection[T]) note(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return
	}
	c.mu.Lock()
	isSame := c.err == nil && err == nil || c.err != nil && err != nil && c.err.Error() == err.Error()
	c.err = err
	c.mu.Unlock()
	if !isSame {
		c.changed()
	}
}

// read returns the objects, whether the list has been read, and the error of the last request.
func (c *collection[T]) read() (items []T, isListed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	items = make([]T, 0, len(c.items))
	for _, item := range c.items {
		items = append(items, item)
	}
	return items, c.isListed, c.err
}

// Add implements cache.ReflectorStore.
func (c *collection[T]) Add(o any) error { return c.Update(o) }

// Update implements cache.ReflectorStore.
func (c *collection[T]) Update(o any) error {
	object := o.(client.Object) //nolint:forcetypeassert // the client decodes only objects
	item, ok := c.keep(object)
	c.mu.Lock()
	if ok {
		c.items[object.GetUID()] = item
	} else {
		delete(c.items, object.GetUID())
	}
	c.mu.Unlock()
	c.changed()
	return nil
}

// Delete implements cache.ReflectorStore.
func (c *collection[T]) Delete(o any) error {
	c.mu.Lock()
	delete(c.items, o.(client.Object).GetUID()) //nolint:forcetypeassert // the client decodes only objects
	c.mu.Unlock()
	c.changed()
	return nil
}

// Replace implements cache.ReflectorStore.
func (c *collection[T]) Replace(objects []any, _ string) error {
	items := make(map[types.UID]T, len(objects))
	for _, o := range objects {
		object := o.(client.Object) //nolint:forcetypeassert // the client decodes only objects
		if item, ok := c.keep(object); ok {
			items[object.GetUID()] = item
		}
	}
	c.mu.Lock()
	c.items, c.isListed, c.err = items, true, nil
	c.mu.Unlock()
	c.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (c *collection[T]) Resync() error { return nil }
