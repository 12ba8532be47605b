package framework_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
)

// Peers contain the rank, the pod name and the address of each replica. The leader has rank 0.
func ExampleNewPeers() {
	roles := framework.LeaderFirst("chief", []framework.Role{
		{Type: "worker", Replicas: 2},
		{Type: "chief", Replicas: 1},
	})
	peers := framework.NewPeers("team-a", "mnist", "3f2a", "cluster.local", 0, roles)
	for _, member := range peers.Members {
		fmt.Println(member.Rank, member.Name, peers.FQDN(member))
	}
	// Output:
	// 0 mnist-chief-0 mnist-chief-0.mnist.team-a.svc.cluster.local
	// 1 mnist-worker-0 mnist-worker-0.mnist.team-a.svc.cluster.local
	// 2 mnist-worker-1 mnist-worker-1.mnist.team-a.svc.cluster.local
}

// A framework adds environment variables to the main container of a replica. Variables that the user has set keep
// their values.
func ExampleWithDefaults() {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "istio-proxy"},
		{Name: "pytorch", Env: []corev1.EnvVar{{Name: "MASTER_PORT", Value: "2222"}}},
	}}}
	main := framework.MainContainer([]string{"pytorch"}, template.Spec.Containers)
	main.Env = framework.WithDefaults(main.Env, []corev1.EnvVar{
		{Name: "MASTER_ADDR", Value: "mnist-worker-0.mnist.team-a.svc.cluster.local"},
		{Name: "MASTER_PORT", Value: "23456"},
	})
	for _, variable := range main.Env {
		fmt.Printf("%s=%s\n", variable.Name, variable.Value)
	}
	// Output:
	// MASTER_ADDR=mnist-worker-0.mnist.team-a.svc.cluster.local
	// MASTER_PORT=2222
}
