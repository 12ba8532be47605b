package controller

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/network"
)

func TestNewNetworkPolicy(t *testing.T) {
	t.Parallel()
	replicas := metav1.LabelSelector{MatchLabels: map[string]string{
		"batch.tensorstack.dev/job-kind": "TestJob", "batch.tensorstack.dev/job-name": "job",
	}}
	monitoring := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "monitoring"}}
	diff(t, "NetworkPolicy", &networkingv1.NetworkPolicy{
		ObjectMeta: wantOwnedMeta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: replicas,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: &replicas}, {NamespaceSelector: monitoring}},
			}},
		},
	}, newNetworkPolicy(&jobtest.NewJob().Job, network.Policies{Enabled: true, AllowedNamespaces: monitoring}))
}
