// Package large keeps large objects out of caches. A cache holds only the part of a large object that the handlers of
// its events need. A reconcile reads the whole object from the API server.
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

// AnnotationSize is the key of the annotation that large objects in a cache have. It holds the size of the object in
// memory, in bytes. The API server rejects the key, so no user can set it.
const AnnotationSize = "size in memory"

// Kind describes how a cache holds the objects of one kind.
type Kind[T client.Object] struct {
	// Most is the maximum size, in bytes of memory, of an object that the cache holds completely.
	Most int64
	// New returns an empty object.
	New func() T
	// Strip removes the fields that the program does not read. It must remove all annotations that the program does not
	// read, among them AnnotationSize.
	Strip func(T)
	// Keep copies the fields of a large object that the handlers of its events need, and that are not metadata. Nil
	// means that the handlers need only the metadata.
	Keep func(into, from T)
}

// Transform is a transform function for a cache. It strips an object of type T. If the object is large, the result
// has only a part of the metadata, the annotation AnnotationSize, and the fields that Keep copies. Transform does not
// change its own results. It does not change objects of other types.
func (k Kind[T]) Transform(object any) (any, error) {
	whole, ok := object.(T)
	if !ok {
		return object, nil
	}
	size, err := parseSize(whole.GetAnnotations()[AnnotationSize])
	k.Strip(whole)
	held := whole
	if measured := memsize.Of(whole); measured > k.Most {
		held, size, err = k.abridge(whole), measured, nil
	}
	if err == nil {
		measured := map[string]string{AnnotationSize: strconv.FormatInt(size, 10)}
		held.SetAnnotations(labels.Merge(held.GetAnnotations(), measured))
	}
	return held, nil
}

// abridge returns the part of a large object that the cache holds.
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

// Is reports whether a cached object is large. If so, the cache holds only a part of it.
func Is(object client.Object) bool {
	_, ok := object.GetAnnotations()[AnnotationSize]
	return ok
}

// parseSize parses the value of AnnotationSize.
func parseSize(value string) (int64, error) { return strconv.ParseInt(value, 10, 64) }

// ErrNoMemory is returned for a large object that must wait until other large objects were reconciled.
var ErrNoMemory = errors.New("too many large objects are being reconciled")

// Delay is the delay before a large object is reconciled again after ErrNoMemory. Meanwhile, the worker can reconcile
// other objects.
const Delay = time.Second

// reads is the maximum number of large objects that are read at the same time. A limit of the memory alone is not
// enough: an object can have grown since the cache saw it, so its size is unknown until it has been read.
const reads = 2

// Reader reads objects from a cache. It reads large objects from the API server instead.
type Reader struct {
	api client.Reader
	// copies is the number of copies of an object that a reconcile has in memory.
	copies int64
	// These pools limit how many large objects are read at the same time (reads), and the memory for large objects
	// (memory).
	reads, memory *fair.Pool
}

// NewReader returns a reader of objects that can be large. The argument copies is the number of copies of a large
// object that a reconcile has in memory. The argument memory is the memory for large objects, in bytes. The
// namespaces share this memory.
func NewReader(api client.Reader, copies, memory int64) Reader {
	return Reader{api: api, copies: copies, reads: fair.NewPool(reads), memory: fair.NewPool(memory)}
}

// Get reads an object from a cache whose transform function is Kind.Transform. If the object is large, Get reads it
// from the API server instead, and isLarge is true. The caller must call release when it no longer needs the object.
// The error is ErrNoMemory if too many large objects are being reconciled.
func (r Reader) Get(
	ctx context.Context, cache client.Reader, key client.ObjectKey, object client.Object, options ...client.GetOption,
) (isLarge bool, release func(), err error) {
	release = func() {}
	if err := cache.Get(ctx, key, object, options...); err != nil || !Is(object) {
		return false, release, err
	}
	size, err := parseSize(object.GetAnnotations()[AnnotationSize])
	if err != nil {
		return true, release, fmt.Errorf("parsing the annotation %q of a cached object: %w", AnnotationSize, err)
	}
	take := func(size int64) bool { return r.memory.TryAcquire(key.Namespace, size*r.copies) }
	giveBack := func(size int64) { r.memory.Release(key.Namespace, size*r.copies) }
	if !take(size) {
		return true, release, ErrNoMemory
	}
	if err := r.getLive(ctx, key, object); err != nil {
		giveBack(size)
		return true, release, err
	}
	grown := memsize.Of(object) - size
	if grown <= 0 {
		return true, func() { giveBack(size) }, nil
	}
	if !take(grown) {
		giveBack(size)
		return true, release, ErrNoMemory
	}
	return true, func() {
		giveBack(size)
		giveBack(grown)
	}, nil
}

// getLive reads an object from the API server.
func (r Reader) getLive(ctx context.Context, key client.ObjectKey, object client.Object) error {
	if err := r.reads.Acquire(ctx, key.Namespace, 1); err != nil {
		return err
	}
	defer r.reads.Release(key.Namespace, 1)
	// Decoding does not reset fields that the response lacks, so empty the object first.
	reflect.ValueOf(object).Elem().SetZero()
	return r.api.Get(ctx, key, object)
}
