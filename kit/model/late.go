package model

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LateAnnotation marks what the API server created late. The controller does not know it.
const LateAnnotation = "conformance/late"

// Write is what a controller asks the API server to change.
type Write struct {
	// Object that is sent.
	Object client.Object
	// Options of a deletion.
	Options client.DeleteOptions
	// Do makes the write on a cluster. It may change the object.
	Do func(*Cluster) error
}

// LateWrite is a write that the API server carries out late. The controller got a timeout for it.
type LateWrite struct {
	Write

	Call Call
}

// Late returns the write as one that the API server carries out later.
func (w Write) Late(call Call) *LateWrite {
	if call.Verb == "create" {
		sent := deepCopyOf(w.Object)
		w.Do = func(c *Cluster) error {
			object := deepCopyOf(sent) // it may be carried out in many lives
			annotations := map[string]string{LateAnnotation: "true"}
			maps.Copy(annotations, object.GetAnnotations())
			object.SetAnnotations(annotations)
			return c.Create(object)
		}
	}
	return &LateWrite{Write: w, Call: call}
}

// CarryOut makes the write, unless its preconditions do not hold any more. It returns the UID of a pod that the write
// created, empty for none.
func (w *LateWrite) CarryOut(c *Cluster) types.UID {
	if err := w.Do(c); err != nil || w.Call.Verb != "create" || w.Call.Resource != Pods {
		return ""
	}
	return c.Live()[w.Call.Key].GetUID()
}

func deepCopyOf(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy of a client.Object is one
}

// IsLate reports whether the API server created an object late. No law about the moment of a creation holds for it.
func IsLate(object metav1.Object) bool { return object.GetAnnotations()[LateAnnotation] != "" }

// Writer is who makes a write.
type Writer struct {
	// IsController reports whether it is the controller.
	IsController bool
	// Unseen is the pod that the API server created late, since the controller began to look at the job last. It may be
	// of an earlier attempt, and a new peer may meet it: no controller can prevent that. This is the window of the laws
	// about pods that meet. It ends with the next reconcile, which must see the pod. Empty means none.
	Unseen types.UID
}
