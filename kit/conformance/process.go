package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// effect is what a fault does to a write.
type effect string

const (
	// stop: the write succeeds, and the process ends right after it.
	stop effect = "the controller stops after"
	// refuse: the API server fails before the write takes effect.
	refuse effect = "the API server fails before"
	// lose: the write takes effect, but the answer is lost and the cache does not have it yet.
	lose effect = "the answer is lost of"
)

// fault is one thing that goes wrong.
type fault struct {
	// effect on the write.
	effect effect
	// write is which write of the controller it befalls, from 1.
	write int
}

// errStopped is what the calls of a process return that has ended.
var errStopped = errors.New("the process has ended")

// process is one run of the controller program, as the cluster knows it: a client with a cache. Its cache has what the process
// itself wrote, as controller-runtime's read-your-writes consistency has it, and may lag behind otherwise.
type process struct {
	client.Client // nil: what a reconciler does not call is not modelled

	mu      sync.Mutex
	cluster *Cluster
	fault   fault
	// writes is shared by all processes of a world.
	writes *int
	// crashing says that the process ends after its first write.
	crashing bool
	stopped  bool
	// catchUp lets the cache of a kind have what it lacks.
	catchUp func(kind string)
	// behind is the state that the cache shows of a kind; of others it shows the newest.
	behind map[string]int
	// looks is how many reconciles see the cache as it is behind, before it catches up.
	looks int
}

// cached returns the objects as the cache of a kind has them.
func (p *process) cached(kind string) objects {
	if revision, ok := p.behind[kind]; ok {
		return p.cluster.states[revision]
	}
	return p.cluster.live()
}

// Scheme implements client.Client.
func (p *process) Scheme() *runtime.Scheme { return p.cluster.scheme }

// Get implements client.Reader: it reads from the cache.
func (p *process) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := p.cluster.kindOf(object)
	switch found := p.cached(kind)[objectKey(kind, key)].(type) {
	case *tensorboardv1beta1.TensorBoard, *schedulerv1beta1.PodGroup:
		if found.GetLabels()[batchv1beta1.LabelJobKind] == "" {
			return notFound(kind, key.Name) // the cache holds only those of jobs
		}
	}
	return p.get(p.cached(kind), kind, key, object)
}

func (p *process) get(state objects, kind string, key types.NamespacedName, object client.Object) error {
	if p.stopped {
		return errStopped
	}
	found := state[objectKey(kind, key)]
	if found == nil {
		return notFound(kind, key.Name)
	}
	if partial, ok := object.(*metav1.PartialObjectMetadata); ok {
		found = metadataOf(found, partial)
	}
	copyInto(object, found)
	return nil
}

func metadataOf(object client.Object, like *metav1.PartialObjectMetadata) client.Object {
	return &metav1.PartialObjectMetadata{TypeMeta: like.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), OwnerReferences: object.GetOwnerReferences(),
	}}
}

// List implements client.Reader: it lists pods from the cache.
func (p *process) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list(p.cached("Pod"), into, options)
}

func (p *process) list(state objects, into client.ObjectList, options []client.ListOption) error {
	if p.stopped {
		return errStopped
	}
	pods := into.(*corev1.PodList) //nolint:forcetypeassert // a panic says that the model lacks something
	for _, pod := range selected(state, options) {
		pods.Items = append(pods.Items, *pod)
	}
	return nil
}

// selected returns the pods of an owner, by the one field selector that a reconciler uses, or those with labels.
func selected(state objects, options []client.ListOption) []*corev1.Pod {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	return slices.DeleteFunc(list[*corev1.Pod](state), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		ofOwner := asked.FieldSelector == nil || owner != nil && asked.FieldSelector.Requirements()[0].Value == string(owner.UID)
		labelled := asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(pod.Labels))
		return !ofOwner || !labelled || pod.Namespace != asked.Namespace
	})
}

// Create implements client.Writer.
func (p *process) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return p.write(object, func() error { return p.cluster.create(object) })
}

// Delete implements client.Writer.
func (p *process) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	var asked client.DeleteOptions
	asked.ApplyOptions(options)
	return p.write(object, func() error { return p.cluster.remove(object, asked) })
}

// Patch implements client.Writer, of TensorBoards and PodGroups.
func (p *process) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return p.write(object, func() error { return p.cluster.patchDependent(object, patch) })
}

// Status implements client.StatusClient.
func (p *process) Status() client.SubResourceWriter { return statusWriter{process: p} }

type statusWriter struct {
	client.SubResourceWriter // nil: what a reconciler does not call is not modelled

	process *process
}

// Patch implements client.SubResourceWriter.
func (w statusWriter) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.process.write(object, func() error { return w.process.cluster.patchStatus(object, patch) })
}

// write makes a write, unless it meets the fault. What the API server refuses is no write.
func (p *process) write(object client.Object, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errStopped
	}
	met := *p.writes+1 == p.fault.write
	if met && p.fault.effect == refuse {
		*p.writes++
		return apierrors.NewServiceUnavailable("the API server is restarting")
	}
	kind, before := p.cluster.kindOf(object), p.cluster.revision()
	if err := do(); err != nil {
		return err
	}
	*p.writes++
	switch {
	case met && p.fault.effect == lose:
		p.behind[kind], p.looks = before, 1
		return apierrors.NewTimeoutError(fmt.Sprintf("writing %s %s: the connection was lost", kind, object.GetName()), 0)
	case met && p.fault.effect == stop || p.crashing:
		p.stopped = true
	default:
		p.catchUp(kind)
	}
	return nil
}

// apiReader reads from the API server itself.
type apiReader struct {
	client.Reader // nil: what a reconciler does not call is not modelled

	process *process
}

// Get implements client.Reader.
func (r apiReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.process.mu.Lock()
	defer r.process.mu.Unlock()
	return r.process.get(r.process.cluster.live(), r.process.cluster.kindOf(object), key, object)
}

// List implements client.Reader.
func (r apiReader) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	r.process.mu.Lock()
	defer r.process.mu.Unlock()
	return r.process.list(r.process.cluster.live(), into, options)
}
