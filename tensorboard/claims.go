package tensorboard

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// claims is the observed state of the claims that a TensorBoard mounts.
type claims struct {
	// Reason is why a claim cannot be mounted. It is empty if all claims can be mounted.
	Reason string
	// WantedOn is the node of another pod that uses or waits for the same claim, which only one node at a time can
	// mount. It is empty if there is no such pod.
	WantedOn string
	// Message has the details of Reason. If WantedOn is set instead, Message names the pod that uses the claim.
	Message string
}

// checkClaim reports whether only one node at a time can mount a claim. If the claim cannot be mounted, checkClaim
// returns the reason instead. A nil claim means that the claim does not exist.
func checkClaim(name string, claim *corev1.PersistentVolumeClaim) (isExclusive bool, seen claims) {
	no := func(reason, format string) (bool, claims) {
		return false, claims{Reason: reason, Message: fmt.Sprintf(format, name)}
	}
	switch {
	case claim == nil:
		return no(v1beta1.ReasonClaimNotReady, "persistentvolumeclaim %s does not exist")
	case slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod):
		return no(v1beta1.ReasonClaimExclusive,
			"persistentvolumeclaim %s is ReadWriteOncePod, so no other pod could use it while TensorBoard runs")
	case claim.Status.Phase != corev1.ClaimBound:
		return no(v1beta1.ReasonClaimNotReady, "persistentvolumeclaim %s is not bound yet")
	}
	return !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) &&
		!slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany), claims{}
}

// hasPrecedence reports whether the TensorBoard must run on the node of another pod that uses its claim. The other
// pod is the parameter user, and the pod of the TensorBoard is the parameter pod. A user that is being deleted never
// has precedence. Any other user has precedence in these cases:
//
//   - The TensorBoard has no pod.
//   - The user is a training pod. The exception is a training pod that already runs on another node while TensorBoard
//     is ready.
//   - The user is the pod of another TensorBoard, and the pod of this TensorBoard is younger and not ready. So two
//     TensorBoards never give way to each other.
func hasPrecedence(user *corev1.Pod, tb *v1beta1.TensorBoard, pod *corev1.Pod) bool {
	name, isTensorBoard := user.Labels[v1beta1.LabelName]
	switch {
	case name == tb.Name || !user.DeletionTimestamp.IsZero():
		return false
	case isTensorBoard && pod != nil:
		return !isReady(pod) && (user.CreationTimestamp.Before(&pod.CreationTimestamp) ||
			user.CreationTimestamp.Equal(&pod.CreationTimestamp) && user.UID < pod.UID)
	case pod != nil && isReady(pod) && user.Spec.NodeName != pod.Spec.NodeName:
		return user.Status.Phase == corev1.PodPending // a pod that runs on another node already has the claim
	default:
		return true
	}
}
