package localcluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// These annotations set how a pod ends on a simulated node. A pod without them runs until it is deleted.
const (
	// AnnotationRunSeconds sets how many seconds the pod runs before it ends.
	AnnotationRunSeconds = "simulation.tensorstack.dev/run-seconds"
	// AnnotationExitCode is the exit code of the containers. The default is 0. With 0, the pod succeeds, otherwise it
	// fails.
	AnnotationExitCode = "simulation.tensorstack.dev/exit-code"
)

//go:embed stages.yaml
var stages []byte

// Stages returns the Stage manifests for kwok. They define how simulated nodes and their pods behave.
func Stages() []byte { return bytes.Clone(stages) }

func (p Paths) kwok(bin string) (Daemon, error) {
	config := p.state("config", "stages.yaml")
	if err := writeFile(config, Stages()); err != nil {
		return Daemon{}, err
	}
	return Daemon{
		Name: "kwok",
		Argv: flags{
			{"kubeconfig", p.state("kubeconfigs", "kwok")},
			{"config", config},
			{"manage-all-nodes", "true"},
			{"node-lease-duration-seconds", "40"},
			{"server-address", loopback(portKwok)},
		}.argv(filepath.Join(bin, "kwok")),
		Files:   []string{config},
		Listens: []string{loopback(portKwok)},
		Ready:   p.probe("http://" + loopback(portKwok) + "/healthz"),
	}, nil
}

// ensureNodes creates the first n simulated nodes, unless they exist.
func ensureNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	for i := range n {
		node := SimulatedNode(i)
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating node %s: %w", node.Name, err)
		}
	}
	return nil
}

// SimulatedNode returns the i-th simulated node. It has a large capacity and a separate range of addresses.
func SimulatedNode(i int) *corev1.Node {
	name := fmt.Sprintf("simulated-%d", i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("512Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("2000"),
		"nvidia.com/gpu":                resource.MustParse("8"),
	}
	// Each node has a separate range of 4,096 addresses in 10.128.0.0/9, so that the addresses of pods are unique.
	address := netip.AddrFrom4([4]byte{10, 128 + byte(i>>4), byte(i << 4), 0})
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				"type":                 "kwok",
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec:   corev1.NodeSpec{PodCIDR: netip.PrefixFrom(address, 20).String()},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}
