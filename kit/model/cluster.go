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

// Cluster is a model of the API server. It covers the behavior that a job controller observes: resource versions,
// generations, preconditions and graceful deletion. It stores a state for each write, so that a cache can lag by any
// number of writes. The integration tests of the controllers check this behavior against a real API server.
//
// The fake client of controller-runtime does not fit, because it ignores the UID precondition of a deletion and
// deletes without a grace period.
type Cluster struct {
	scheme *runtime.Scheme
	clock  clock.PassiveClock
	// specOf returns the spec of a job. Nil means that new pods do not get MembersAnnotation.
	specOf func(framework.Job) framework.JobSpec
	// admission changes the pods of the job as they are created. Nil changes nothing.
	admission Admission
	// states holds the objects at the start and after each write. The objects in a state never change.
	states []Objects
	// versions is the number of writes before the first element of states. The next resource version is computed from
	// it.
	versions int
	uids     int
	// trainings are the trainings of pods that can report their progress.
	trainings Trainings
	// onChange is called after every write.
	onChange func(Change)
}

// Change is a write of one object.
type Change struct {
	// Key of the object.
	Key string
	// Before is the object before the write, or nil if it did not exist. After is the object after the write, or nil if
	// it was deleted.
	Before, After client.Object
}

// Resource returns the resource of the object.
func (c Change) Resource() Resources { return resourceOf(cmp.Or(c.After, c.Before)) }

// Snapshot is the state of a cluster. Another cluster can continue from it.
type Snapshot struct {
	Objects Objects
	// Trainings are the trainings of the pods that can report their progress.
	Trainings Trainings
	// versions and uids are the counters for the next resource version and UID.
	versions, uids int
}

// MembersAnnotation is a pod annotation. Its value is the number of replicas that the job had when the pod was
// created. CheckLaws uses it to detect pods that were created for different sizes of the job. The controller does not
// read it.
const MembersAnnotation = "conformance/members"

// AskedAnnotation is the annotation of a pod whose attempt label admission has changed. Its value is the attempt that
// the controller requested.
const AskedAnnotation = "conformance/asked"

// NewCluster returns an empty cluster.
func NewCluster(scheme *runtime.Scheme, clock clock.PassiveClock) *Cluster {
	return &Cluster{scheme: scheme, clock: clock, states: []Objects{{}}, onChange: func(Change) {}}
}

// NewClusterFor returns a cluster for a job of a kind. The cluster continues from a snapshot and calls onChange after
// every write.
func NewClusterFor(kind Kind, clock clock.PassiveClock, from Snapshot, onChange func(Change)) *Cluster {
	return &Cluster{
		scheme: kind.Scheme, clock: clock, specOf: kind.SpecOf, admission: kind.Admission, onChange: onChange,
		states: []Objects{from.Objects}, versions: from.versions, uids: from.uids, trainings: from.Trainings,
	}
}

// Snapshot returns the current state of the cluster.
func (c *Cluster) Snapshot() Snapshot {
	return Snapshot{
		Objects: c.Live(), Trainings: c.trainings, versions: c.versions + c.Revision(), uids: c.uids,
	}
}

func (c *Cluster) now() metav1.Time { return metav1.NewTime(c.clock.Now()).Rfc3339Copy() }

// Revision returns the number of the current state. The state at the start has the number 0.
func (c *Cluster) Revision() int { return len(c.states) - 1 }

// Live returns the current objects of the cluster.
func (c *Cluster) Live() Objects { return c.states[c.Revision()] }

// At returns the objects of the cluster at a revision.
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

// put stores an object under a key and appends the result as the next state. A nil object removes the key.
func (c *Cluster) put(key string, after client.Object) {
	before := c.Live()[key]
	if after != nil {
		after.SetResourceVersion(strconv.Itoa(c.versions + len(c.states)))
	}
	if pod, ok := before.(*corev1.Pod); ok && after == nil {
		c.endTraining(pod.UID)
	}
	c.states = append(c.states, c.Live().with(key, after))
	c.onChange(Change{Key: key, Before: before, After: after})
}

// ChangeTo returns the write that produced a revision.
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
	panic("the revision has no write") // put appends one revision for each write
}

// Create stores a new object and sets the fields that the API server sets. It returns AlreadyExists if the name is
// taken, and Forbidden if a ResourceQuota has no room for a pod.
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
		secret.Data = nil // the data is random: with it, no two states would be equal
	}
	if pod, ok := object.(*corev1.Pod); ok {
		if err := c.Live().exceedsQuota(pod); err != nil {
			return err
		}
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

// Remove deletes an object as the API server does. A pod with a grace period or a finalizer stays and is only marked
// as being deleted. A pod has no grace period if it is not bound to a node, if it has ended, or if the options set
// the period to 0. Remove returns NotFound if the object does not exist, and Conflict if a precondition does not
// hold.
func (c *Cluster) Remove(object client.Object, options client.DeleteOptions) error {
	key := c.keyOf(object)
	current := c.Live()[key]
	if current == nil {
		return notFound(kindOf(c.scheme, object), object.GetName())
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != current.GetUID() {
			return conflict(object, "the UID in the precondition is %s, but the UID of the object is %s",
				*p.UID, current.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
			return conflict(object, "the resourceVersion in the precondition is %s, but the object has %s",
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

// removeOwner deletes an object other than a pod. With foreground propagation the object stays until the garbage
// collector has deleted its dependents. Otherwise the object is removed immediately.
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

// Change changes the status of a pod or binds the pod to a node, as a kubelet or the scheduler does.
func (c *Cluster) Change(pod *corev1.Pod, change func(*corev1.Pod)) {
	changed := copyOf(pod)
	changed.Status = *pod.Status.DeepCopy()
	change(changed)
	c.follow(changed)
	c.put(c.keyOf(pod), changed)
}

// Annotate simulates a change of an annotation: the object only gets a new resource version. Such a change of a job
// does not enqueue a reconcile.
func (c *Cluster) Annotate(object client.Object) { c.put(c.keyOf(object), copyOf(object)) }

// Put replaces an object.
func (c *Cluster) Put(object client.Object) { c.put(c.keyOf(object), object) }

// copyOf returns a shallow copy of an object. The copy shares the data behind pointers, maps and slices with the
// object, which saves memory.
func copyOf[T client.Object](object T) T {
	value := reflect.New(reflect.TypeOf(object).Elem())
	value.Elem().Set(reflect.ValueOf(object).Elem())
	return value.Interface().(T) //nolint:forcetypeassert // it is of the same type
}

// copyInto overwrites an object with a copy of another object of the same type.
func copyInto(to, from client.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}
