package model

import (
	"cmp"
	"fmt"
	"reflect"
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

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Cluster is a model of the API server, as far as a job controller can tell: resource versions, generations,
// preconditions, graceful deletion. It remembers every state it was in, so that a cache can lag behind at will. What is
// modelled is checked against the real API server by the integration tests of the controllers.
//
// Why not the fake client of controller-runtime: it ignores the UID precondition of a deletion and deletes at once.
type Cluster struct {
	scheme *runtime.Scheme
	clock  clock.PassiveClock
	// specOf returns the spec of a job. With it, pods carry how many replicas the job had when they were created.
	specOf func(framework.Job) framework.JobSpec
	// admission changes pods as they are created. Nil changes nothing.
	admission Admission
	// states are what the cluster held after each write. Their objects never change.
	states []Objects
	// versions is how many states there were before these.
	versions int
	uids     int
	// onChange is told of every write.
	onChange func(Change)
}

// Change is a write of one object.
type Change struct {
	// Key of the object.
	Key string
	// Before is the object before the write, nil if it was not there. After is the object after it, nil if it is gone.
	Before, After client.Object
}

// Resource returns the resource of the object.
func (c Change) Resource() Resources { return resourceOf(cmp.Or(c.After, c.Before)) }

// Snapshot is a state of a cluster from which another can go on.
type Snapshot struct {
	Objects Objects
	// versions and uids number what is written next.
	versions, uids int
}

// MembersAnnotation is how many replicas the job had when a pod was created, so that a law can tell one gang from
// another. The controller does not know it.
const MembersAnnotation = "conformance/members"

// AskedAnnotation is the attempt that a pod was to be created for, if admission changed the label that has it.
const AskedAnnotation = "conformance/asked"

// NewCluster returns an empty cluster.
func NewCluster(scheme *runtime.Scheme, clock clock.PassiveClock) *Cluster {
	return &Cluster{scheme: scheme, clock: clock, states: []Objects{{}}, onChange: func(Change) {}}
}

// NewClusterFor returns a cluster for a job of a kind, which goes on from a snapshot. The function is told of every
// write.
func NewClusterFor(kind Kind, clock clock.PassiveClock, from Snapshot, onChange func(Change)) *Cluster {
	return &Cluster{
		scheme: kind.Scheme, clock: clock, specOf: kind.SpecOf, admission: kind.Admission, onChange: onChange,
		states: []Objects{from.Objects}, versions: from.versions, uids: from.uids,
	}
}

// Snapshot returns the state that the cluster is in.
func (c *Cluster) Snapshot() Snapshot {
	return Snapshot{Objects: c.Live(), versions: c.versions + c.Revision(), uids: c.uids}
}

func (c *Cluster) now() metav1.Time { return metav1.NewTime(c.clock.Now()).Rfc3339Copy() }

// Revision numbers the states of the cluster, from 0.
func (c *Cluster) Revision() int { return len(c.states) - 1 }

// Live returns what the cluster holds.
func (c *Cluster) Live() Objects { return c.states[c.Revision()] }

// At returns what the cluster held at a revision.
func (c *Cluster) At(revision int) Objects { return c.states[revision] }

func (c *Cluster) keyOf(object client.Object) string {
	return Key(kindOf(c.scheme, object), client.ObjectKeyFromObject(object))
}

func notFound(kind string, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(kind)}, name)
}

func conflict(object client.Object, why string, args ...any) error {
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), fmt.Errorf(why, args...))
}

// put stores an object, nil to remove it, as the next state.
func (c *Cluster) put(key string, after client.Object) {
	before := c.Live()[key]
	if after != nil {
		after.SetResourceVersion(strconv.Itoa(c.versions + len(c.states)))
	}
	c.states = append(c.states, c.Live().with(key, after))
	c.onChange(Change{Key: key, Before: before, After: after})
}

// ChangeTo returns the write that led to a revision.
func (c *Cluster) ChangeTo(revision int) Change {
	old, now := c.states[revision-1], c.states[revision]
	for key, object := range now {
		if old[key] != object {
			return Change{Key: key, Before: old[key], After: object}
		}
	}
	for key, object := range old {
		if now[key] == nil {
			return Change{Key: key, Before: object}
		}
	}
	panic("nothing was written") // put makes a revision of each write
}

// Create stores a new object and fills in what the API server fills in. It returns AlreadyExists if there is one of the
// name.
func (c *Cluster) Create(object client.Object) error {
	key := c.keyOf(object)
	if c.Live()[key] != nil {
		resource := schema.GroupResource{Resource: strings.ToLower(kindOf(c.scheme, object))}
		return apierrors.NewAlreadyExists(resource, object.GetName())
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
		if c.admission != nil && owned(pod) {
			asked := AttemptLabel(pod)
			c.admission(pod)
			if AttemptLabel(pod) != asked {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AskedAnnotation, asked)
			}
		}
		if job := c.Live().Job(); job != nil && c.specOf != nil {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, MembersAnnotation, strconv.Itoa(CountReplicas(c.specOf(job))))
		}
	}
	stored := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy of a client.Object is one
	c.put(key, stored)
	object.SetResourceVersion(stored.GetResourceVersion())
	return nil
}

// Remove deletes an object as the API server does: a pod that is bound to a node and has not ended gets its grace
// period. At its end the kubelet confirms. It returns NotFound, or Conflict if a precondition does not hold.
func (c *Cluster) Remove(object client.Object, options client.DeleteOptions) error {
	key := c.keyOf(object)
	current := c.Live()[key]
	if current == nil {
		return notFound(kindOf(c.scheme, object), object.GetName())
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != current.GetUID() {
			return conflict(object, "the UID in the precondition is %s, that of the object %s", *p.UID, current.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
			return conflict(object, "the resourceVersion in the precondition is %s, that of the object %s",
				*p.ResourceVersion, current.GetResourceVersion())
		}
	}
	pod, ok := current.(*corev1.Pod)
	if !ok {
		return c.removeOwner(key, current, options)
	}
	grace := ptr.Deref(options.GracePeriodSeconds,
		ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		grace = 0
	}
	if grace == 0 && len(pod.Finalizers) == 0 {
		c.put(key, nil)
		return nil
	}
	if pod.DeletionTimestamp != nil {
		if grace == 0 {
			c.shortenGrace(key, pod)
		}
		return nil
	}
	pod = copyOf(pod)
	pod.DeletionGracePeriodSeconds = &grace
	pod.DeletionTimestamp = new(metav1.NewTime(c.clock.Now().Add(time.Duration(grace) * time.Second)).Rfc3339Copy())
	c.put(key, pod)
	return nil
}

// removeOwner deletes an object at once, or in the foreground: then it stays until the garbage collector has deleted
// all that it owns.
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

// Change lets a kubelet or the scheduler change the status of a pod, or bind it to a node.
func (c *Cluster) Change(pod *corev1.Pod, change func(*corev1.Pod)) {
	changed := copyOf(pod)
	changed.Status = *pod.Status.DeepCopy()
	change(changed)
	c.put(c.keyOf(pod), changed)
}

// Annotate changes an object in a way that does not wake a controller.
func (c *Cluster) Annotate(object client.Object) { c.put(c.keyOf(object), copyOf(object)) }

// Put replaces an object.
func (c *Cluster) Put(object client.Object) { c.put(c.keyOf(object), object) }

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
