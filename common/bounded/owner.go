package bounded

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxOwner is longer than any reference to an owner of our kinds, in bytes.
const maxOwner = 512

// Owner returns the reference to the owner that controls an object. It returns nil if there is none, or if no object of
// our kinds can be the owner. The API server limits no field of a reference, and controllers use the name in the URLs
// of their requests. So a reference of more than 512 bytes is ignored, and also one whose name is no DNS subdomain.
func Owner(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || !isPlausible(owner) {
		return nil
	}
	return owner
}

func isPlausible(owner *metav1.OwnerReference) bool {
	return len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) <= maxOwner &&
		len(validation.IsDNS1123Subdomain(owner.Name)) == 0
}
