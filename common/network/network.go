// Package network creates the NetworkPolicies with which controllers protect their pods. It reverts changes that
// others make to these NetworkPolicies.
package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// Policies are the settings of the NetworkPolicies of a controller. The zero value disables them.
type Policies struct {
	// Enabled reports whether the controller creates NetworkPolicies.
	Enabled bool
	// AllowedNamespaces selects namespaces that NetworkPolicies allow in addition to the necessary peers. Nil selects
	// none.
	AllowedNamespaces *metav1.LabelSelector
}

// Peers returns the peers of a rule: the selected pods in the namespace of the NetworkPolicy, and all pods of the
// allowed namespaces.
func (p Policies) Peers(pods metav1.LabelSelector) []networkingv1.NetworkPolicyPeer {
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: &pods}}
	if p.AllowedNamespaces != nil {
		peers = append(peers, networkingv1.NetworkPolicyPeer{NamespaceSelector: p.AllowedNamespaces})
	}
	return peers
}

// ControllerPods returns a peer that selects the pods of a controller, which read the progress of jobs, by the name of
// the controller and its namespace. If the namespace is empty, the controller runs outside of a cluster, and the result
// is nil.
func ControllerPods(namespace, controller string) *networkingv1.NetworkPolicyPeer {
	if namespace == "" {
		return nil
	}
	return &networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": controller}},
	}
}

// Ingress returns the spec of a NetworkPolicy for the pods with the given labels. The spec allows only ingress that
// matches one of the rules. It does not restrict egress.
func Ingress(pods map[string]string, rules ...networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress:     rules,
	}
}

// Strip strips a NetworkPolicy for a cache. The argument possible contains the specs that the controller's
// NetworkPolicies can have. Any other spec is replaced with an empty one, so that the cache keeps no contents that
// tenants write. The empty spec still shows that somebody changed the NetworkPolicy. A second call for the same
// object changes nothing.
func Strip(policy *networkingv1.NetworkPolicy, possible ...networkingv1.NetworkPolicySpec) {
	if !slices.ContainsFunc(possible, func(spec networkingv1.NetworkPolicySpec) bool {
		return equality.Semantic.DeepEqual(policy.Spec, spec)
	}) {
		policy.Spec = networkingv1.NetworkPolicySpec{}
	}
}

// Keeper creates the NetworkPolicies of a controller and reverts changes to them.
type Keeper struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server itself.
	APIReader client.Reader
}

// Has reports whether the NetworkPolicy of the owner is in the cache and has the wanted spec.
func (k Keeper) Has(ctx context.Context, owner client.Object, wanted *networkingv1.NetworkPolicy) (bool, error) {
	var seen networkingv1.NetworkPolicy
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(wanted), &seen)
	has := err == nil && metav1.IsControlledBy(&seen, owner) && equality.Semantic.DeepEqual(seen.Spec, wanted.Spec)
	return has, client.IgnoreNotFound(err)
}

// Ensure creates the NetworkPolicy of an owner, or restores its spec. The argument called is the name of the owner in
// messages, such as "the job". Ensure never changes a NetworkPolicy of the same name that the owner does not control.
// Errors are of type *report.RefusedError, unless a retry can succeed.
func (k Keeper) Ensure(
	ctx context.Context, owner client.Object, called string, wanted *networkingv1.NetworkPolicy,
) error {
	var seen networkingv1.NetworkPolicy
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(wanted), &seen)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading networkpolicy %s: %w", wanted.Name, err)
	case err != nil || !metav1.IsControlledBy(&seen, owner):
		err := owned.Create(ctx, k.Client, k.APIReader, owner, called, wanted.DeepCopy())
		if _, ok := errors.AsType[*owned.NotCachedError](err); !ok {
			return err
		}
		// The cache is stale, or lacks the NetworkPolicy because somebody removed our labels from it.
	case equality.Semantic.DeepEqual(seen.Spec, wanted.Spec):
		return nil
	}
	return k.restore(ctx, owner, called, wanted)
}

// restore restores the labels and the spec of a NetworkPolicy. It needs a live read, because the cache does not contain
// the current spec.
func (k Keeper) restore(
	ctx context.Context, owner client.Object, called string, wanted *networkingv1.NetworkPolicy,
) error {
	what := "networkpolicy " + wanted.Name
	var live networkingv1.NetworkPolicy
	if err := k.APIReader.Get(ctx, client.ObjectKeyFromObject(wanted), &live); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	if !metav1.IsControlledBy(&live, owner) {
		return report.NameConflict(called, what, &live)
	}
	changed := live.DeepCopy()
	changed.Spec = *wanted.Spec.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, wanted.Labels)
	if equality.Semantic.DeepEqual(&live, changed) {
		return nil // the cache is stale
	}
	return owned.RefusedOrFailed(batchv1beta1.ReasonUpdateFailed, "changing "+what,
		loop.Patch(ctx, k.Client, &live, changed))
}
