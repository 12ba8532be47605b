package hostile

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkHostNetwork checks the DNS policy and the ports of a pod with hostNetwork, and that a pod without hostNetwork
// has the DNS policy and the ports of its template. It returns the violations. The map has the ports that the
// controller has chosen, with the names of their pods. checkHostNetwork adds the ports of this pod to the map.
func checkHostNetwork(pod *corev1.Pod, template corev1.PodSpec, used map[int32]string) []string {
	var problems []string
	breaks := func(law string, args ...any) { problems = append(problems, fmt.Sprintf(law, args...)) }
	wantDNS := template.DNSPolicy
	if template.HostNetwork && wantDNS == "" {
		wantDNS = corev1.DNSClusterFirstWithHostNet
	}
	if pod.Spec.DNSPolicy != wantDNS {
		breaks("its DNS policy is %q, want %q", pod.Spec.DNSPolicy, wantDNS)
	}
	declared := map[corev1.ContainerPort]bool{} // keys have only the number and the protocol
	key := func(p corev1.ContainerPort) corev1.ContainerPort {
		return corev1.ContainerPort{ContainerPort: p.ContainerPort, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)}
	}
	for _, c := range template.Containers {
		for _, p := range c.Ports {
			declared[key(p)] = true
		}
	}
	for i, c := range pod.Spec.Containers {
		own := len(template.Containers[i].Ports)
		if len(c.Ports) < own || !slices.Equal(c.Ports[:own], template.Containers[i].Ports) {
			breaks("the ports of its container %s are %v, but they must begin with the ports of its template", c.Name, c.Ports)
			continue
		}
		for _, p := range c.Ports[own:] {
			switch other, isUsed := used[p.ContainerPort]; {
			case !template.HostNetwork:
				breaks("it declares the additional port %v without hostNetwork", p)
			case p.HostPort != p.ContainerPort:
				breaks("the host port and the container port of %v differ", p)
			case declared[key(p)]:
				breaks("it declares the port %v twice", p)
			case isUsed:
				breaks("it has the same port %d as pod %s", p.ContainerPort, other)
			}
			declared[key(p)], used[p.ContainerPort] = true, pod.Name
		}
	}
	return problems
}
