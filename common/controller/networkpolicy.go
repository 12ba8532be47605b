package controller

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan"
)

// newNetworkPolicy returns the NetworkPolicy of a job.
func newNetworkPolicy(job *plan.Job, policies network.Policies) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: job.MetaOfOwned(),
		Spec:       NetworkPolicySpec(job.Kind.Kind, job.Name, policies),
	}
}

// NetworkPolicySpec returns the spec of the NetworkPolicy of a job. It allows the replicas to reach each other at any
// port, because not all of their ports are known beforehand. Other peers can reach the replicas only if the settings
// allow them.
func NetworkPolicySpec(kind, job string, policies network.Policies) networkingv1.NetworkPolicySpec {
	replicas := plan.SelectorLabels(kind, job)
	return network.Ingress(replicas, networkingv1.NetworkPolicyIngressRule{
		From: policies.Peers(metav1.LabelSelector{MatchLabels: replicas}),
	})
}
