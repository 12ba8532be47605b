package tensorboard

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/fair"
)

// claims is how the claims of a TensorBoard's sources are.
type claims struct {
	// Reason why they cannot be mounted, with a Message; empty if they can.
	Reason string
	// WantedOn is the node of another pod that uses a claim which one node at a time can mount, or waits for it there;
	// empty if no pod does. The Message says which.
	WantedOn string
	Message  string
}

const (
	// podPage is how many pods are read at once: each may be as large as the API server stores, which is 1.5 MiB.
	podPage = 20
	// podPages is how many pages may be in memory. Namespaces share them.
	podPages = 4
)

// claimReader reads claims and the pods that use them from the API server itself: no cache holds those of others.
type claimReader struct {
	client.Reader

	// pages are those that may be in memory.
	pages *fair.Pool
}

func newClaimReader(reader client.Reader) *claimReader {
	return &claimReader{Reader: reader, pages: fair.NewPool(podPages)}
}

// observe looks at the claims that a TensorBoard without a pod mounts, or that its pod has mounted. A TensorBoard is
// never the first to use a claim, which would decide where its volume is and with that where the training has to run.
func (r *claimReader) observe(ctx context.Context, tb *v1beta1.TensorBoard, pod *corev1.Pod) (claims, error) {
	exclusive, seen, err := r.readClaims(ctx, tb)
	if err != nil || seen.Reason != "" || len(exclusive) == 0 {
		return seen, err
	}
	selector, err := fields.ParseSelector("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	if err != nil {
		return claims{}, err
	}
	return r.findUser(ctx, tb, pod, exclusive, selector)
}

// readClaims returns the names of the claims that one node at a time can mount.
func (r *claimReader) readClaims(
	ctx context.Context, tb *v1beta1.TensorBoard,
) (exclusive []string, seen claims, err error) {
	for _, name := range sourcesOf(&tb.Spec).Claims {
		var claim corev1.PersistentVolumeClaim
		err := r.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: name}, &claim)
		switch {
		case apierrors.IsNotFound(err):
			return nil, claims{
				Reason: v1beta1.ReasonClaimNotReady, Message: fmt.Sprintf("persistentvolumeclaim %s does not exist", name),
			}, nil
		case err != nil:
			return nil, claims{}, fmt.Errorf("reading persistentvolumeclaim %s: %w", name, err)
		case slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod):
			return nil, claims{Reason: v1beta1.ReasonClaimExclusive, Message: fmt.Sprintf(
				"persistentvolumeclaim %s is ReadWriteOncePod: no other pod could use it while TensorBoard runs", name)}, nil
		case claim.Status.Phase != corev1.ClaimBound:
			return nil, claims{
				Reason: v1beta1.ReasonClaimNotReady, Message: fmt.Sprintf("persistentvolumeclaim %s is not bound yet", name),
			}, nil
		case !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) &&
			!slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany):
			exclusive = append(exclusive, name)
		}
	}
	return exclusive, claims{}, nil
}

// findUser finds a pod, among those that a field selector selects, that goes before the TensorBoard's and uses one of
// the claims: one on its node, if there is, since it is in the way of no other then.
func (r *claimReader) findUser(
	ctx context.Context, tb *v1beta1.TensorBoard, pod *corev1.Pod, names []string, selector fields.Selector,
) (claims, error) {
	found, isHere := claims{}, false
	look := func(user *corev1.Pod) {
		if isHere || !goesBefore(user, tb, pod) || !usesClaim(user, names) {
			return
		}
		isHere = pod != nil && user.Spec.NodeName == pod.Spec.NodeName
		if isHere || found.WantedOn == "" {
			found = claims{WantedOn: user.Spec.NodeName, Message: fmt.Sprintf(
				"pod %s uses a ReadWriteOnce claim of TensorBoard on node %s", user.Name, user.Spec.NodeName)}
		}
	}
	for next, isLast := "", false; !isLast && !isHere; isLast = next == "" {
		var err error
		if next, err = r.readPage(ctx, tb.Namespace, selector, next, look); err != nil {
			return claims{}, fmt.Errorf("looking for pods that use the claims: %w", err)
		}
	}
	return found, nil
}

// readPage calls do for each pod of a page, which the token names. It returns the token of the next page, empty for
// none.
func (r *claimReader) readPage(
	ctx context.Context, namespace string, selector fields.Selector, token string, do func(*corev1.Pod),
) (next string, err error) {
	if err := r.pages.Acquire(ctx, namespace, 1); err != nil {
		return "", err
	}
	defer r.pages.Release(namespace, 1)
	var page corev1.PodList
	err = r.List(ctx, &page, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: selector},
		client.Limit(podPage), client.Continue(token))
	for i := range page.Items {
		do(&page.Items[i])
	}
	return page.Continue, err
}

// goesBefore says that the TensorBoard has to be where a pod is. Training goes before all. Of TensorBoards the one that
// was first does, or two would make way for each other.
func goesBefore(user *corev1.Pod, tb *v1beta1.TensorBoard, pod *corev1.Pod) bool {
	of, isTensorBoard := user.Labels[v1beta1.LabelName]
	switch {
	case of == tb.Name || !user.DeletionTimestamp.IsZero():
		return false
	case isTensorBoard && pod != nil:
		return !isReady(pod) && (user.CreationTimestamp.Before(&pod.CreationTimestamp) ||
			user.CreationTimestamp.Equal(&pod.CreationTimestamp) && user.UID < pod.UID)
	case pod != nil && isReady(pod) && user.Spec.NodeName != pod.Spec.NodeName:
		return user.Status.Phase == corev1.PodPending // those that run elsewhere have what they need
	default:
		return true
	}
}
