package view

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// TheJob is how messages refer to a job that owns an object.
const TheJob = "the job"

// MetaOfOwned returns the metadata of an object that the job owns. The object has the name of the job.
func (j *Job) MetaOfOwned() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            j.Name,
		Namespace:       j.Namespace,
		Labels:          Labels(j.Kind.Kind, j.Name),
		OwnerReferences: []metav1.OwnerReference{j.Owner()},
	}
}

// Owner returns the owner reference that the objects of the job have.
func (j *Job) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         j.Kind.GroupVersion().String(),
		Kind:               j.Kind.Kind,
		Name:               j.Name,
		UID:                j.UID,
		Controller:         new(true),
		BlockOwnerDeletion: new(true),
	}
}

// IsControlledBy reports whether an object is controlled by the owner with the given UID.
func IsControlledBy(object metav1.Object, uid types.UID) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == uid
}

// IsHeld reports whether a pod has the finalizer of leaders.
func IsHeld(pod metav1.Object) bool {
	return slices.Contains(pod.GetFinalizers(), batchv1beta1.FinalizerLeader)
}
