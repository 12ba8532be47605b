package hostile

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkHostNetwork checks what hostNetwork changes in a pod, and that nothing changes without it. Used has the pods of
// the job by the ports that their controller has chosen.
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
	declared := map[corev1.ContainerPort]bool{} // by number and protocol
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
			breaks("the ports of its container %s are %v, and begin other than those of its template", c.Name, c.Ports)
			continue
		}
		for _, p := range c.Ports[own:] {
			switch other, isUsed := used[p.ContainerPort]; {
			case !template.HostNetwork:
				breaks("it has no hostNetwork, and declares the port %v", p)
			case p.HostPort != p.ContainerPort:
				breaks("the host port of %v is another one", p)
			case declared[key(p)]:
				breaks("it declares the port %v twice", p)
			case isUsed:
				breaks("it has the port %d of pod %s", p.ContainerPort, other)
			}
			declared[key(p)], used[p.ContainerPort] = true, pod.Name
		}
	}
	return problems
}
