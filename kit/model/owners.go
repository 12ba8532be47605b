package model

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// somebodyElse is the owner of objects that the job does not own.
var somebodyElse = metav1.OwnerReference{
	APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other", Controller: new(true),
}

// SomebodyElse is the text for somebodyElse in messages with the reason NameConflict.
const SomebodyElse = "Deployment other (UID other)"

// Foreign returns an object with the given resource and name, and with another owner than the job.
func Foreign(of Resources, name string) client.Object {
	var object client.Object
	switch of {
	case Services:
		object = &corev1.Service{}
	case PodGroups:
		object = &schedulerv1beta1.PodGroup{}
	case Workloads:
		object = &kueuev1beta2.Workload{}
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

// Foreign returns the objects of a resource whose owner is not the job.
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

// isForeign reports whether an object has an owner that is not the job.
func isForeign(object client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == somebodyElse.UID
}

// checkOwner checks that the controller does not change an object that has another owner.
func checkOwner(t Reporter, change Change) {
	t.Helper()
	if change.Before != nil && isForeign(change.Before) {
		t.Errorf("the controller changes %s, which is owned by %s", change.Key, SomebodyElse)
	}
}
