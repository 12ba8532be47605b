package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestNewNetworkPolicy(t *testing.T) {
	t.Parallel()
	replicas := metav1.LabelSelector{MatchLabels: map[string]string{
		"batch.tensorstack.dev/job-kind": "TestJob", "batch.tensorstack.dev/job-name": "job",
	}}
	monitoring := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "monitoring"}}
	controller := &networkingv1.NetworkPolicyPeer{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "test-controller"}},
	}
	peers := networkingv1.NetworkPolicyIngressRule{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &replicas}, {NamespaceSelector: monitoring}},
	}
	reports := jobtest.NewJob()
	reports.Spec.ReportsProgress = true
	for name, tc := range map[string]struct {
		job  view.Job
		want []networkingv1.NetworkPolicyIngressRule
	}{
		"the replicas and the allowed namespaces can reach the replicas": {
			job: jobtest.NewJob().Job, want: []networkingv1.NetworkPolicyIngressRule{peers},
		},
		"the controller can reach the port for progress of a job that reports progress": {
			job: reports.Job, want: []networkingv1.NetworkPolicyIngressRule{peers, {
				From: []networkingv1.NetworkPolicyPeer{*controller},
				Ports: []networkingv1.NetworkPolicyPort{{
					Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(29499)),
				}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newNetworkPolicy(&tc.job, network.Policies{Enabled: true, AllowedNamespaces: monitoring}, controller)
			diff(t, "NetworkPolicy", &networkingv1.NetworkPolicy{
				ObjectMeta: wantOwnedMeta(),
				Spec: networkingv1.NetworkPolicySpec{
					PodSelector: replicas, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: tc.want,
				},
			}, got)
		})
	}
}
