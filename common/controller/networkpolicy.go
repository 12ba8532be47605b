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

// newNetworkPolicy returns the NetworkPolicy of a job. The pods that the parameter reader selects can reach the ports
// that the controller reads: the one for progress if the job reports it, and the one of the supervisor if it counts
// restarts in place.
func newNetworkPolicy(
	job *view.Job, policies network.Policies, reader *networkingv1.NetworkPolicyPeer,
) *networkingv1.NetworkPolicy {
	var ports []int32
	if job.Spec.ReportsProgress {
		ports = append(ports, framework.ProgressPort)
	}
	if job.Spec.RestartsInPlace {
		ports = append(ports, framework.SupervisorPort)
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: job.MetaOfOwned(),
		Spec:       NetworkPolicySpec(job.Kind.Kind, job.Name, policies, reader, ports...),
	}
}

// NetworkPolicySpecs returns the possible specs of the NetworkPolicy of a job. See newNetworkPolicy.
func NetworkPolicySpecs(
	kind, job string, policies network.Policies, reader *networkingv1.NetworkPolicyPeer,
) []networkingv1.NetworkPolicySpec {
	const progress, supervisor = framework.ProgressPort, framework.SupervisorPort
	var specs []networkingv1.NetworkPolicySpec
	for _, ports := range [][]int32{nil, {progress}, {supervisor}, {progress, supervisor}} {
		specs = append(specs, NetworkPolicySpec(kind, job, policies, reader, ports...))
	}
	return specs
}

// NetworkPolicySpec returns the spec of the NetworkPolicy of a job. The NetworkPolicy allows the replicas to reach each
// other at any port, because not all of their ports are known beforehand. The parameter policies determines which other
// peers can reach the replicas. The pods that reader selects can reach the given ports. Nil selects none.
func NetworkPolicySpec(
	kind, job string, policies network.Policies, reader *networkingv1.NetworkPolicyPeer, ports ...int32,
) networkingv1.NetworkPolicySpec {
	replicas := view.SelectorLabels(kind, job)
	spec := network.Ingress(replicas, networkingv1.NetworkPolicyIngressRule{
		From: policies.Peers(metav1.LabelSelector{MatchLabels: replicas}),
	})
	if reader == nil || len(ports) == 0 {
		return spec
	}
	rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{*reader}}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{
			Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port)),
		})
	}
	spec.Ingress = append(spec.Ingress, rule)
	return spec
}
