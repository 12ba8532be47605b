package model

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// somebodyElse is the owner of objects that are not the job's.
var somebodyElse = metav1.OwnerReference{
	APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other", Controller: new(true),
}

// SomebodyElse is what the message of NameConflict calls the owner of objects that are not the job's.
const SomebodyElse = "Deployment other (UID other)"

// Foreign returns an object of a resource, with a name that a job may need, that somebody else owns.
func Foreign(of Resources, name string) client.Object {
	var object client.Object
	switch of {
	case Services:
		object = &corev1.Service{}
	case PodGroups:
		object = &schedulerv1beta1.PodGroup{}
	case TensorBoards:
		object = &tensorboardv1beta1.TensorBoard{}
	case NetworkPolicies:
		object = &networkingv1.NetworkPolicy{}
	default:
		object = &corev1.Pod{}
	}
	object.SetNamespace(JobKey.Namespace)
	object.SetName(name)
	object.SetOwnerReferences([]metav1.OwnerReference{somebodyElse})
	return object
}

// Foreign returns the objects of a resource that somebody else owns.
func (o Objects) Foreign(of Resources) []client.Object {
	var found []client.Object
	for _, object := range ListOf[client.Object](o.Of(of)) {
		if isForeign(object) {
			found = append(found, object)
		}
	}
	return found
}

// owned reports whether a job owns an object.
func owned(object client.Object) bool {
	return metav1.GetControllerOf(object) != nil && !isForeign(object)
}

// isForeign reports whether somebody else owns an object.
func isForeign(object client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == somebodyElse.UID
}

// checkOwner checks that a write of the controller does not change what somebody else owns.
func checkOwner(t Reporter, change Change) {
	t.Helper()
	if change.Before != nil && isForeign(change.Before) {
		t.Errorf("the controller changes %s, which belongs to %s", change.Key, SomebodyElse)
	}
}
