package model

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/progress"
)

// Call is one request of a controller to the API server or to its cache.
type Call struct {
	// Verb is get, list, create, delete or patch. Two kinds of calls have other verbs: the dry run of a creation has
	// "try", and a read of sidecars has "read the progress of".
	Verb string
	// Resource and Key identify the object. The key of a list is the kind of the listed objects. A read of sidecars has
	// no resource, and its key has the UIDs of the pods.
	Resource Resources
	Key      string
}

// Writes reports whether the call is a write.
func (c Call) Writes() bool { return c.Verb == "create" || c.Verb == "delete" || c.Verb == "patch" }

// String returns the verb and the key.
func (c Call) String() string { return c.Verb + " " + c.Key }

// Answer is the result of a call.
type Answer struct {
	Call Call
	Err  error
	// Object is the object that was read or patched, or the pod that was created. Pods are the pods that were listed.
	// Callers must not change these objects, because the states of the cluster share them.
	Object client.Object
	Pods   []*corev1.Pod
	// Readings are the readings of sidecars.
	Readings []progress.Reading
}

// Server answers the calls of a controller. It decides which state a call reads and which faults the call meets.
type Server interface {
	// ReadCache answers a read from the cache.
	ReadCache(call Call, from func(Objects) Answer) Answer
	// ReadLive answers a live read from the API server.
	ReadLive(call Call, from func(Objects) Answer) Answer
	// Write answers a call that changes the cluster.
	Write(call Call, write Write) Answer
}

// NewClient returns the client of a controller. The client reads from the cache, and implements only the methods that
// a reconciler calls.
func NewClient(scheme *runtime.Scheme, server Server) client.Client {
	return modelClient{reader: reader{scheme: scheme, read: server.ReadCache, cached: true}, server: server}
}

// NewAPIReader returns a reader that does live reads from the API server.
func NewAPIReader(scheme *runtime.Scheme, server Server) client.Reader {
	return reader{scheme: scheme, read: server.ReadLive}
}

type reader struct {
	client.Reader // nil: only methods that a reconciler calls are implemented

	scheme *runtime.Scheme
	read   func(Call, func(Objects) Answer) Answer
	cached bool
}

// Get implements client.Reader.
func (r reader) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind := kindOf(r.scheme, into)
	key := Key(kind, name)
	answer := r.read(Call{Verb: "get", Resource: resourceOf(into), Key: key}, func(from Objects) Answer {
		found := from[key]
		if found == nil || r.cached && !isCached(found) {
			return Answer{Err: notFound(kind, name.Name)}
		}
		if resourceOf(found) == ResourceQuotas {
			found = from.Quota()
		}
		return Answer{Object: found}
	})
	if answer.Err != nil {
		return answer.Err
	}
	found := answer.Object
	if partial, ok := into.(*metav1.PartialObjectMetadata); ok {
		found = metadataOf(found, partial)
	}
	copyInto(into, found)
	return nil
}

// isCached reports whether the controller's cache can contain an object. The cache selects pods, Services,
// TensorBoards, PodGroups and Workloads by the job-kind label.
func isCached(object client.Object) bool {
	switch object.(type) {
	case *corev1.Pod, *corev1.Service, *tensorboardv1beta1.TensorBoard, *schedulerv1beta1.PodGroup,
		*kueuev1beta2.Workload:
		return object.GetLabels()[batchv1beta1.LabelJobKind] != ""
	default:
		return true
	}
}

func metadataOf(object client.Object, like *metav1.PartialObjectMetadata) client.Object {
	return &metav1.PartialObjectMetadata{TypeMeta: like.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), OwnerReferences: object.GetOwnerReferences(),
		Labels: object.GetLabels(),
	}}
}

// List implements client.Reader for pods. A list of PriorityClasses is empty, because the cluster has none.
func (r reader) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	if _, ok := into.(*schedulingv1.PriorityClassList); ok {
		return nil
	}
	answer := r.read(Call{Verb: "list", Resource: Pods, Key: kindNames[Pods]}, func(from Objects) Answer {
		pods := selected(from, options)
		if r.cached {
			pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !isCached(pod) })
		}
		return Answer{Pods: pods}
	})
	pods := into.(*corev1.PodList) //nolint:forcetypeassert // a reconciler lists no other objects
	for _, pod := range answer.Pods {
		pods.Items = append(pods.Items, *pod)
	}
	return answer.Err
}

// selected returns the pods that a list selects by its namespace, its field selector and its label selector.
func selected(from Objects, options []client.ListOption) []*corev1.Pod {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	return slices.DeleteFunc(ListOf[*corev1.Pod](from), func(pod *corev1.Pod) bool {
		bySelector := asked.FieldSelector == nil || isIndexed(pod, asked.FieldSelector.Requirements()[0])
		labeled := asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(pod.Labels))
		return !bySelector || !labeled || pod.Namespace != asked.Namespace
	})
}

type modelClient struct {
	client.Client // nil: only methods that a reconciler calls are implemented

	reader reader
	server Server
}

// Scheme implements client.Client.
func (c modelClient) Scheme() *runtime.Scheme { return c.reader.scheme }

// Get implements client.Reader.
func (c modelClient) Get(
	ctx context.Context, name client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	return c.reader.Get(ctx, name, into, options...)
}

// List implements client.Reader for pods.
func (c modelClient) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	return c.reader.List(ctx, into, options...)
}

// Create implements client.Writer.
func (c modelClient) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	var asked client.CreateOptions
	asked.ApplyOptions(options)
	if pod, ok := object.(*corev1.Pod); ok && len(asked.DryRun) > 0 {
		key := Key("Pod", client.ObjectKeyFromObject(object))
		return c.server.ReadLive(Call{Verb: "try", Resource: Pods, Key: key}, func(live Objects) Answer {
			return Answer{Err: live.exceedsQuota(pod)}
		}).Err
	}
	answer := c.write("create", Write{
		Object: object, Do: func(cluster *Cluster) error { return cluster.Create(object) },
	})
	if answer.Object != nil {
		copyInto(object, answer.Object)
	}
	return answer.Err
}

// Delete implements client.Writer.
func (c modelClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	var asked client.DeleteOptions
	asked.ApplyOptions(options)
	return c.write("delete", Write{
		Object: object, Options: asked, Do: func(cluster *Cluster) error { return cluster.Remove(object, asked) },
	}).Err
}

// Patch implements client.Writer for TensorBoards, PodGroups, NetworkPolicies, and the finalizers of pods.
func (c modelClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if pod, ok := object.(*corev1.Pod); ok {
		return c.patch(object, func(cluster *Cluster) error { return cluster.patchPod(pod, patch) })
	}
	return c.patch(object, func(cluster *Cluster) error { return cluster.patchDependent(object, patch) })
}

// Status implements client.StatusClient for jobs and Workloads.
func (c modelClient) Status() client.SubResourceWriter { return statusWriter{client: c} }

type statusWriter struct {
	client.SubResourceWriter // nil: only methods that a reconciler calls are implemented

	client modelClient
}

// Patch implements client.SubResourceWriter.
func (w statusWriter) Patch(
	_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	return w.client.patch(object, func(cluster *Cluster) error {
		if _, ok := object.(*kueuev1beta2.Workload); ok {
			return cluster.patchDependent(object, patch)
		}
		return cluster.patchStatus(object, patch)
	})
}

// patch applies a patch and copies the result into the object.
func (c modelClient) patch(object client.Object, do func(*Cluster) error) error {
	answer := c.write("patch", Write{Object: object, Do: do})
	if answer.Err == nil && answer.Object != nil { // nil if removing the last finalizer also removed the pod
		copyInto(object, answer.Object)
	}
	return answer.Err
}

func (c modelClient) write(verb string, write Write) Answer {
	key := Key(kindOf(c.reader.scheme, write.Object), client.ObjectKeyFromObject(write.Object))
	return c.server.Write(Call{Verb: verb, Resource: resourceOf(write.Object), Key: key}, write)
}

// AnswerTo makes a write on a cluster and returns the answer.
func AnswerTo(call Call, cluster *Cluster, write Write) Answer {
	answer := Answer{Call: call, Err: write.Do(cluster)}
	if (call.Verb == "patch" || call.Verb == "create" && call.Resource == Pods) && answer.Err == nil {
		answer.Object = cluster.Live()[call.Key]
	}
	return answer
}

// Client returns a client of the cluster. No fault happens to its calls, and its cache is never stale.
func (c *Cluster) Client() client.Client { return NewClient(c.scheme, &reliable{cluster: c}) }

// reliable is a server without faults.
type reliable struct {
	mu      sync.Mutex
	cluster *Cluster
}

// ReadCache implements Server.
func (r *reliable) ReadCache(call Call, from func(Objects) Answer) Answer {
	return r.ReadLive(call, from)
}

// ReadLive implements Server.
func (r *reliable) ReadLive(_ Call, from func(Objects) Answer) Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from(r.cluster.Live())
}

// Write implements Server.
func (r *reliable) Write(call Call, write Write) Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return AnswerTo(call, r.cluster, write)
}
