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
	reports, counts := jobtest.NewJob().Reporting(0, 0, ""), jobtest.NewJob().CountingRestarts()
	both := jobtest.NewJob().Reporting(0, 0, "").CountingRestarts()
	// reads returns the rule for the controller.
	reads := func(ports ...int32) networkingv1.NetworkPolicyIngressRule {
		rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{*controller}}
		for _, port := range ports {
			rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{
				Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port)),
			})
		}
		return rule
	}
	for name, tc := range map[string]struct {
		job  view.Job
		want []networkingv1.NetworkPolicyIngressRule
	}{
		"the replicas and the allowed namespaces can reach the replicas": {
			job: jobtest.NewJob().Job, want: []networkingv1.NetworkPolicyIngressRule{peers},
		},
		"the controller can reach the port for progress of a job that reports progress": {
			job: reports.Job, want: []networkingv1.NetworkPolicyIngressRule{peers, reads(29499)},
		},
		"the controller can reach the supervisor of a job that counts restarts in place": {
			job: counts.Job, want: []networkingv1.NetworkPolicyIngressRule{peers, reads(29498)},
		},
		"the controller can reach both ports of a job that needs them": {
			job: both.Job, want: []networkingv1.NetworkPolicyIngressRule{peers, reads(29499, 29498)},
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
