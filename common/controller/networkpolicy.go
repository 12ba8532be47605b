package controller

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan/view"
)

// newNetworkPolicy returns the NetworkPolicy of a job. If the job reports progress, the pods that the parameter
// reader selects can reach the port for progress.
func newNetworkPolicy(
	job *view.Job, policies network.Policies, reader *networkingv1.NetworkPolicyPeer,
) *networkingv1.NetworkPolicy {
	if !job.Spec.ReportsProgress {
		reader = nil
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: job.MetaOfOwned(),
		Spec:       NetworkPolicySpec(job.Kind.Kind, job.Name, policies, reader),
	}
}

// NetworkPolicySpec returns the spec of the NetworkPolicy of a job. The NetworkPolicy allows the replicas to reach
// each other at any port, because not all of their ports are known beforehand. The parameter reader selects the pods
// that can reach the port for progress. Nil selects none. The parameter policies determines which other peers can
// reach the replicas.
func NetworkPolicySpec(
	kind, job string, policies network.Policies, reader *networkingv1.NetworkPolicyPeer,
) networkingv1.NetworkPolicySpec {
	replicas := view.SelectorLabels(kind, job)
	spec := network.Ingress(replicas, networkingv1.NetworkPolicyIngressRule{
		From: policies.Peers(metav1.LabelSelector{MatchLabels: replicas}),
	})
	if reader != nil {
		spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{*reader},
			Ports: []networkingv1.NetworkPolicyPort{{
				Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(framework.ProgressPort)),
			}},
		})
	}
	return spec
}
