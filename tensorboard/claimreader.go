package tensorboard

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/fair"
)

const (
	// podPage is the maximum number of pods on a page of a list. It limits the memory for a page, because a pod can have
	// up to 1.5 MiB.
	podPage = 20
	// podPages is how many pages, of all namespaces together, can be in memory at the same time.
	podPages = 4
)

// claimReader reads claims (PersistentVolumeClaims), and the pods that use them, from the API server. The cache has
// no claims. Its only pods are the pods of TensorBoards.
type claimReader struct {
	client.Reader

	// pages limits the pages that are in memory.
	pages *fair.Pool
}

func newClaimReader(reader client.Reader) *claimReader {
	return &claimReader{Reader: reader, pages: fair.NewPool(podPages)}
}

// observe returns the state of the claims of a TensorBoard. If only one node at a time can mount a claim, observe
// also looks for another pod that uses the claim. A TensorBoard waits until its claims are bound. Otherwise, its pod
// could be the first pod that uses a claim. The node of that pod decides where the volume is created, and so where
// the training must run.
func (r *claimReader) observe(ctx context.Context, tb *v1beta1.TensorBoard, pod *corev1.Pod) (claims, error) {
	exclusive, seen, err := r.readClaims(ctx, tb)
	if err != nil || seen.Reason != "" || len(exclusive) == 0 {
		return seen, err
	}
	selector := fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	return r.findUser(ctx, tb, pod, exclusive, selector)
}

// readClaims returns the names of the claims that only one node at a time can mount. If a claim cannot be mounted,
// readClaims returns the reason instead.
func (r *claimReader) readClaims(
	ctx context.Context, tb *v1beta1.TensorBoard,
) (exclusive []string, seen claims, err error) {
	for _, name := range sourcesOf(&tb.Spec).Claims {
		claim := &corev1.PersistentVolumeClaim{}
		err := r.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: name}, claim)
		if client.IgnoreNotFound(err) != nil {
			return nil, claims{}, fmt.Errorf("reading persistentvolumeclaim %s: %w", name, err)
		}
		if err != nil {
			claim = nil
		}
		isExclusive, seen := checkClaim(name, claim)
		if seen.Reason != "" {
			return nil, seen, nil
		}
		if isExclusive {
			exclusive = append(exclusive, name)
		}
	}
	return exclusive, claims{}, nil
}

// findUser returns the node of a pod that uses one of the claims and has precedence over the TensorBoard, see
// hasPrecedence. Only pods that match the field selector are considered. A pod on the node of the TensorBoard is
// preferred, because the TensorBoard can then stay on its node.
func (r *claimReader) findUser(
	ctx context.Context, tb *v1beta1.TensorBoard, pod *corev1.Pod, names []string, selector fields.Selector,
) (claims, error) {
	found, isHere := claims{}, false
	check := func(user *corev1.Pod) {
		if isHere || !hasPrecedence(user, tb, pod) || !usesClaim(user, names) {
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
		if next, err = r.readPage(ctx, tb.Namespace, selector, next, check); err != nil {
			return claims{}, fmt.Errorf("listing the pods that use the claims: %w", err)
		}
	}
	return found, nil
}

// readPage calls do for each pod of the page with the given continue token. It returns the token of the next page,
// which is empty after the last page.
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
