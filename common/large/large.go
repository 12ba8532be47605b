// Package large keeps large objects out of caches. Of a large object a cache holds only what events need, and the
// object is read from the API server when it is reconciled.
package large

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/fair"
	"tensorstack.dev/jobs/common/memsize"
)

// AnnotationSize holds the size of an object in memory, in bytes. Only large objects in a cache have this annotation.
// If a user sets it, a small object is read like a large one.
const AnnotationSize = "batch.tensorstack.dev/size-in-memory"

// Kind describes how a cache holds the objects of one kind.
type Kind[T client.Object] struct {
	// Most is the size of the largest object that the cache holds completely, in bytes of memory.
	Most int64
	// New returns an empty object.
	New func() T
	// Strip removes the fields that the program does not read, among them AnnotationSize.
	Strip func(T)
	// Keep copies what events need from a large object, besides its metadata. It is optional.
	Keep func(into, from T)
}

// Transform is a transform function for a cache. It strips an object. Of a large object it keeps only the metadata,
// with AnnotationSize, and what Keep copies. An object can be transformed twice, and other objects are not changed.
func (k Kind[T]) Transform(object any) (any, error) {
	whole, ok := object.(T)
	if !ok {
		return object, nil
	}
	size, err := parseSize(whole.GetAnnotations()[AnnotationSize])
	k.Strip(whole)
	held := whole
	//attack:the cache keeps large objects => if measured := memsize.Of(whole) - 1<<40; measured > k.Most {
	if measured := memsize.Of(whole); measured > k.Most {
		held, size, err = k.abridge(whole), measured, nil
	}
	if err == nil {
		held.SetAnnotations(labels.Merge(held.GetAnnotations(),
			map[string]string{AnnotationSize: strconv.FormatInt(size, 10)})) // not the text of a user, which can be long
	}
	return held, nil
}

// abridge returns what the cache holds of a large object.
func (k Kind[T]) abridge(whole T) T {
	held := k.New()
	held.SetNamespace(whole.GetNamespace())
	held.SetName(whole.GetName())
	held.SetUID(whole.GetUID())
	held.SetResourceVersion(whole.GetResourceVersion())
	held.SetGeneration(whole.GetGeneration())
	held.SetCreationTimestamp(whole.GetCreationTimestamp())
	held.SetDeletionTimestamp(whole.GetDeletionTimestamp())
	held.SetLabels(whole.GetLabels())
	held.SetAnnotations(whole.GetAnnotations())
	if owner := bounded.Owner(whole); owner != nil {
		held.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	if k.Keep != nil {
		k.Keep(held, whole)
	}
	return held
}

// Is reports whether a cached object is large, so that the cache does not hold all of it.
func Is(object client.Object) bool {
	_, ok := object.GetAnnotations()[AnnotationSize]
	return ok
}

// parseSize parses the value of AnnotationSize. No object in memory is larger than 2^39 bytes.
func parseSize(value string) (int64, error) {
	size, err := strconv.ParseUint(value, 10, 39)
	return int64(size), err //nolint:gosec // 39 bits fit
}

// ErrNoMemory is returned for a large object that must wait until other large objects were reconciled.
var ErrNoMemory = errors.New("too many large objects are being reconciled")

// Delay is the delay before a large object is reconciled again after ErrNoMemory. The worker is free meanwhile.
const Delay = time.Second

// Reader reads objects from a cache, and those that are large from the API server.
type Reader struct {
	cache, api client.Reader
	// copies is the number of copies of an object that a reconcile has in memory.
	copies int64
	memory *fair.Pool
}

// NewReader returns a reader of the objects of a cache whose transform function is that of a Kind. A reconcile has the given number of
// copies of an object in memory. The namespaces share the memory for large objects, in bytes.
func NewReader(cache, api client.Reader, copies, memory int64) Reader {
	return Reader{cache: cache, api: api, copies: copies, memory: fair.NewPool(memory)}
}

// Get reads an object, and reports whether it is large. The caller must call release when it no longer needs the
// object. The error is ErrNoMemory if too many large objects are being reconciled.
func (r Reader) Get(
	ctx context.Context, key client.ObjectKey, object client.Object,
) (isLarge bool, release func(), err error) {
	release = func() {}
	if err := r.cache.Get(ctx, key, object); err != nil || !Is(object) {
		return false, release, err
	}
	size, err := parseSize(object.GetAnnotations()[AnnotationSize])
	if err != nil {
		return true, release, fmt.Errorf("parsing the annotation %s of a cached object: %w", AnnotationSize, err)
	}
	memory := size * r.copies
	if !r.memory.TryAcquire(key.Namespace, memory) {
		return true, release, ErrNoMemory
	}
	reflect.ValueOf(object).Elem().SetZero() // the object is decoded into it, and keeps fields that the text does not have
	if err := r.api.Get(ctx, key, object); err != nil {
		r.memory.Release(key.Namespace, memory)
		return true, release, err
	}
	return true, func() { r.memory.Release(key.Namespace, memory) }, nil
}
