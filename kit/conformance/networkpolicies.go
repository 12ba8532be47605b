package conformance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/kit/model"
)

// networkPolicyScenarios are scenarios with a controller that creates NetworkPolicies.
var networkPolicyScenarios = []scenario{
	{
		name:   "the NetworkPolicy of a running job is restored when a user changes or deletes it",
		shape:  two(onFailure, scopeJob),
		before: []step{startsWith(lettingIn("monitoring"))},
		steps: []step{
			letsIn("monitoring"), run,
			policyDeleted, letsIn("monitoring"), policyOpened, letsIn("monitoring"),
			together(policyDeleted, exits(1, 1)), letsIn("monitoring"), run,
			together(policyOpened, exits(1, 1)), letsIn("monitoring"), passes(15 * time.Second), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 2, Restarts: 4, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:   "a deleted NetworkPolicy is not restored while the job is paused or finished",
		shape:  two(onFailure, scopeJob),
		before: []step{startsWith(lettingIn("monitoring"))},
		steps: []step{
			run, paused, policyDeleted, hasNoPolicy, resumed, letsIn("monitoring"), run, exits(1, 0), exits(0, 0),
			policyDeleted, hasNoPolicy,
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the NetworkPolicy of a running job follows the settings of the controller",
		shape:  two(onFailure, scopeJob),
		before: []step{startsWith(network.Policies{})},
		steps: []step{
			run, hasNoPolicy,
			startsWith(lettingIn("monitoring")), letsIn("monitoring"), startsWith(lettingIn("gateway")), letsIn("gateway"),
			startsWith(network.Policies{}), letsIn("gateway"), policyDeleted, hasNoPolicy, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the NetworkPolicy is deleted with its job",
		shape:  two(onFailure, scopeJob),
		before: []step{startsWith(lettingIn("monitoring"))},
		steps:  []step{run, jobDeleted, hasNoPolicy},
	},
}

// lettingIn returns settings for NetworkPolicies that allow traffic from the pods of one namespace, in addition to
// traffic between the replicas.
func lettingIn(namespace string) network.Policies {
	return network.Policies{Enabled: true, AllowedNamespaces: &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
	}}
}

// startsWith returns a step in which an administrator restarts the controller with other settings for NetworkPolicies.
func startsWith(policies network.Policies) step {
	return func(w *world) {
		w.options.NetworkPolicies = policies
		w.start(nil)
	}
}

// policy returns the NetworkPolicy, or nil if there is none.
func (w *world) policy() *networkingv1.NetworkPolicy {
	if found := model.ListOf[*networkingv1.NetworkPolicy](w.Cluster.Live()); len(found) > 0 {
		return found[0]
	}
	return nil
}

// letsIn returns a step that checks that the NetworkPolicy of the job allows traffic from its replicas and from the
// pods of a namespace.
func letsIn(namespace string) step {
	return func(w *world) {
		w.t.Helper()
		policy := w.policy()
		if policy == nil {
			w.t.Errorf("the job has no NetworkPolicy: %s", w.describe())
			return
		}
		var got []string
		for _, rule := range policy.Spec.Ingress {
			for _, peer := range rule.From {
				for _, selector := range []*metav1.LabelSelector{peer.PodSelector, peer.NamespaceSelector} {
					if selector != nil {
						got = append(got, selector.MatchLabels[batchv1beta1.LabelJobName]+selector.MatchLabels[corev1.LabelMetadataName])
					}
				}
			}
		}
		if want := []string{model.JobKey.Name, namespace}; !slices.Equal(got, want) {
			w.t.Errorf("the NetworkPolicy allows traffic from %q, want %q: %s", got, want, w.describe())
		}
	}
}

// hasNoPolicy checks that there is no NetworkPolicy.
func hasNoPolicy(w *world) {
	w.t.Helper()
	if w.policy() != nil {
		w.t.Errorf("the job has a NetworkPolicy, want none: %s", w.describe())
	}
}

// hasNoPods checks that the job has no pods.
func hasNoPods(w *world) {
	w.t.Helper()
	if len(w.pods()) > 0 {
		w.t.Errorf("the job has pods, want none: %s", w.describe())
	}
}

// policyDeleted is a step in which a user deletes the NetworkPolicy.
func policyDeleted(w *world) { w.remove(w.policy()) }

// policyOpened is a step in which a user changes the NetworkPolicy so that it allows all traffic.
func policyOpened(w *world) {
	opened := w.policy().DeepCopy()
	opened.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	opened.Generation++
	w.Cluster.Put(opened)
}
