package model

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LateAnnotation marks an object that a delayed write created. The controller does not read the annotation.
const LateAnnotation = "conformance/late"

// Write is a write request of a controller.
type Write struct {
	// Object is the object in the request.
	Object client.Object
	// Options of a deletion.
	Options client.DeleteOptions
	// Do makes the write on a cluster. It can change the object.
	Do func(*Cluster) error
}

// LateWrite is a delayed write: the API server makes it after the controller got a timeout.
type LateWrite struct {
	Write

	Call Call
}

// Late returns the write as a delayed write. An object that the delayed write creates has LateAnnotation.
func (w Write) Late(call Call) *LateWrite {
	if call.Verb == "create" {
		sent := deepCopyOf(w.Object)
		w.Do = func(c *Cluster) error {
			object := deepCopyOf(sent) // each execution that makes the write needs its own copy
			annotations := map[string]string{LateAnnotation: "true"}
			maps.Copy(annotations, object.GetAnnotations())
			object.SetAnnotations(annotations)
			return c.Create(object)
		}
	}
	return &LateWrite{Write: w, Call: call}
}

// CarryOut makes the write if its preconditions still hold. It returns the UID of the pod that the write created.
// Empty means none.
func (w *LateWrite) CarryOut(c *Cluster) types.UID {
	if err := w.Do(c); err != nil || w.Call.Verb != "create" || w.Call.Resource != Pods {
		return ""
	}
	return c.Live()[w.Call.Key].GetUID()
}

func deepCopyOf(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy of a client.Object is one
}

// IsLate reports whether a delayed write created the object. The laws about the time of a creation do not apply to
// such an object.
func IsLate(object metav1.Object) bool { return object.GetAnnotations()[LateAnnotation] != "" }

// Writer describes who makes a write.
type Writer struct {
	// IsController reports whether the controller makes the write.
	IsController bool
	// Unseen is the pod that a delayed write created since the last reconcile began. Empty means none. The pod can belong
	// to an earlier attempt, and the controller can create a peer while the pod exists. No controller can prevent that,
	// so the laws about pods that exist at the same time exempt this pod. The exemption ends when the next reconcile
	// begins, because that reconcile must see the pod.
	Unseen types.UID
	// Trainings are the trainings of pods at Now, the time of the write.
	Trainings Trainings
	Now       time.Time
}
