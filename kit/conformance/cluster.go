package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Cluster is a model of the API server, as far as a job controller can tell: resource versions, generations, preconditions,
// graceful deletion. It remembers every state it was in, so that a cache can lag behind at will. What is modelled is checked
// against the real API server by the integration tests of the controllers.
//
// Why not the fake client of controller-runtime: it ignores the UID precondition of a deletion and deletes at once.
type Cluster struct {
	scheme *runtime.Scheme
	clock  clock.PassiveClock
	// specOf returns the spec of a job. With it, pods carry how many replicas the job had when they were created.
	specOf func(framework.Job) framework.JobSpec
	// states are what the cluster held after each write. Their objects never change.
	states []objects
	// versions is how many states there were before these.
	versions int
	uids     int
	// onChange is told of every write: the object before, if it was there, and after, if it still is.
	onChange func(kind string, before, after client.Object)
}

// objects are what a cluster holds, by kind, namespace and name.
type objects map[string]client.Object

// job returns the job, or nil if there is none.
func (o objects) job() framework.Job {
	for _, object := range o {
		if job, ok := object.(framework.Job); ok {
			return job
		}
	}
	return nil
}

// membersAnnotation is how many replicas the job had when a pod was created, so that a law can tell one gang from another. The
// controller does not know it.
const membersAnnotation = "conformance/members"

// CountReplicas returns how many replicas a job is to have.
func CountReplicas(spec framework.JobSpec) int {
	sum := 0
	for _, role := range spec.Roles {
		sum += int(role.Replicas)
	}
	return sum
}

// pods returns the pods of the job by index.
func (o objects) pods() []*corev1.Pod {
	return slices.DeleteFunc(list[*corev1.Pod](o), func(p *corev1.Pod) bool { return !owned(p) })
}

func owned(object client.Object) bool { return metav1.GetControllerOf(object) != nil }

// NewCluster returns an empty cluster.
func NewCluster(scheme *runtime.Scheme, clock clock.PassiveClock) *Cluster {
	return &Cluster{scheme: scheme, clock: clock, states: []objects{{}}, onChange: func(string, client.Object, client.Object) {}}
}

func (c *Cluster) now() metav1.Time { return metav1.NewTime(c.clock.Now()).Rfc3339Copy() }

// revision numbers the states of the cluster.
func (c *Cluster) revision() int { return len(c.states) - 1 }

func (c *Cluster) live() objects { return c.states[c.revision()] }

func objectKey(kind string, key types.NamespacedName) string { return kind + "/" + key.String() }

func (c *Cluster) kindOf(object runtime.Object) string {
	gvk, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		panic(err) // a test passes an object of a kind that it did not register
	}
	return gvk.Kind
}

func (c *Cluster) keyOf(object client.Object) string {
	return objectKey(c.kindOf(object), client.ObjectKeyFromObject(object))
}

func notFound(kind string, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(kind)}, name)
}

func conflict(object client.Object, why string, args ...any) error {
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), fmt.Errorf(why, args...))
}

// put stores an object, nil to remove it, as the next state.
func (c *Cluster) put(key string, after client.Object) {
	before := c.live()[key]
	next := maps.Clone(c.live())
	var kind string
	if after == nil {
		kind = c.kindOf(before)
		delete(next, key)
	} else {
		kind = c.kindOf(after)
		after.SetResourceVersion(strconv.Itoa(c.versions + len(c.states)))
		next[key] = after
	}
	c.states = append(c.states, next)
	c.onChange(kind, before, after)
}

// changeTo returns the object that was written to get to a revision, as it was before and after.
func (c *Cluster) changeTo(revision int) (before, after client.Object) {
	old, now := c.states[revision-1], c.states[revision]
	for key, object := range now {
		if old[key] != object {
			return old[key], object
		}
	}
	for key, object := range old {
		if now[key] == nil {
			return object, nil
		}
	}
	panic("nothing was written") // put makes a revision of each write
}

// create stores a new object and fills in what the API server fills in. It returns AlreadyExists if there is one of the name.
func (c *Cluster) create(object client.Object) error {
	key := c.keyOf(object)
	if c.live()[key] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: strings.ToLower(c.kindOf(object))}, object.GetName())
	}
	c.uids++
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
	object.SetCreationTimestamp(c.now())
	object.SetGeneration(1)
	if job, ok := object.(framework.Job); ok {
		job.JobStatus().Phase = batchv1beta1.JobPhasePending // the default in the CRD
	}
	if secret, ok := object.(*corev1.Secret); ok {
		secret.Data = nil // each time another, so that no state would be like an earlier one
	}
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
		if job := c.live().job(); job != nil && c.specOf != nil {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, membersAnnotation, strconv.Itoa(CountReplicas(c.specOf(job))))
		}
	}
	stored := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy of a client.Object is one
	c.put(key, stored)
	object.SetResourceVersion(stored.GetResourceVersion())
	return nil
}

// remove deletes an object as the API server does: a pod that is bound to a node and has not ended gets its grace period, at
// the end of which the kubelet confirms. It returns NotFound, or Conflict if a precondition does not hold.
func (c *Cluster) remove(object client.Object, options client.DeleteOptions) error {
	key := c.keyOf(object)
	current := c.live()[key]
	if current == nil {
		return notFound(c.kindOf(object), object.GetName())
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != current.GetUID() {
			return conflict(object, "the UID in the precondition is %s, that of the object %s", *p.UID, current.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
			return conflict(object, "the resourceVersion in the precondition is %s, that of the object %s", *p.ResourceVersion, current.GetResourceVersion())
		}
	}
	pod, ok := current.(*corev1.Pod)
	if !ok {
		return c.removeOwner(key, current, options)
	}
	grace := ptr.Deref(options.GracePeriodSeconds, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		grace = 0
	}
	if grace == 0 {
		c.put(key, nil)
		return nil
	}
	if pod.DeletionTimestamp != nil {
		return nil
	}
	pod = copyOf(pod)
	pod.DeletionGracePeriodSeconds = &grace
	pod.DeletionTimestamp = new(metav1.NewTime(c.clock.Now().Add(time.Duration(grace) * time.Second)).Rfc3339Copy())
	c.put(key, pod)
	return nil
}

// removeOwner deletes an object at once, or in the foreground: then it stays until the garbage collector has deleted all that it
// owns.
func (c *Cluster) removeOwner(key string, current client.Object, options client.DeleteOptions) error {
	switch {
	case ptr.Deref(options.PropagationPolicy, metav1.DeletePropagationBackground) != metav1.DeletePropagationForeground:
		c.put(key, nil)
	case current.GetDeletionTimestamp() == nil:
		deleted := copyOf(current)
		deleted.SetDeletionTimestamp(new(c.now()))
		deleted.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
		deleted.SetGeneration(deleted.GetGeneration() + 1)
		c.put(key, deleted)
	}
	return nil
}

// PriorityClassName is the class that pods of every PodGroup here must have.
const PriorityClassName = "priority-of-the-group"

// queueClosedMessage is the message of the condition Admitted of a PodGroup whose queue is closed.
const queueClosedMessage = "the queue is closed"

// Change lets a kubelet or the scheduler change the status of a pod, or bind it to a node.
func (c *Cluster) Change(pod *corev1.Pod, change func(*corev1.Pod)) {
	changed := copyOf(pod)
	changed.Status = *pod.Status.DeepCopy()
	change(changed)
	c.put(c.keyOf(pod), changed)
}

// Client returns a client whose cache never lags.
func (c *Cluster) Client() client.Client {
	return &process{cluster: c, writes: new(int), catchUp: func(string) {}}
}

// list returns the objects of a kind in a state, by name.
func list[T client.Object](state objects) []T {
	var found []T
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if object, ok := state[key].(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// copyOf returns an object that shares all but its fields with another, so that many states do not take much memory.
func copyOf[T client.Object](object T) T {
	value := reflect.New(reflect.TypeOf(object).Elem())
	value.Elem().Set(reflect.ValueOf(object).Elem())
	return value.Interface().(T) //nolint:forcetypeassert // it is of the same type
}

// copyInto overwrites an object with a copy of another of the same type.
func copyInto(to, from client.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}
