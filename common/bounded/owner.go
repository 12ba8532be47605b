package bounded

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxOwner is the maximum size of a reference to an owner, in bytes. References to owners of our kinds are smaller.
const maxOwner = 512

// Owner returns the reference to the owner that controls an object. It returns nil if there is no such owner, if the
// reference is longer than 512 bytes, or if the name in the reference is not a DNS subdomain. The API server accepts
// fields of any length, but controllers keep the reference in memory and use the name in the URLs of their requests.
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
