package framework

import (
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The ports of replicas with hostNetwork are from FirstHostPort to LastHostPort. Kubernetes gives none of these to
// Services of type NodePort (30000 to 32767), and Linux none to outgoing connections (from 32768).
const (
	FirstHostPort = 20000
	LastHostPort  = 26002
)

const (
	// MaxHostPorts is how many ports a job may have: one for each of its 2,000 replicas, and one more.
	MaxHostPorts = 2001
	// hostPortBlocks is how many blocks of MaxHostPorts successive ports a job can get. It is a prime number, so that the
	// attempts of a job go through all blocks.
	hostPortBlocks = LastHostPort - FirstHostPort + 1 - (MaxHostPorts - 1)
	// hostPortStride is how far the block of an attempt is from that of the attempt before. Blocks of successive attempts
	// have no port in common.
	hostPortStride = MaxHostPorts
)

// HostPort returns the n-th port of the job in its current attempt. From MaxHostPorts on the ports repeat, which the
// CRDs rule out by their limits. A replica with hostNetwork listens on it instead of on the port that the framework
// uses in a network of its own: on a node, ports must be different for all replicas of all jobs.
//
// The ports of a job are different from each other. They follow from the UID and the attempt alone, so that each
// replica knows those of the others. The scheduler keeps equal ports of different jobs on different nodes; see
// DeclareHostPort. If something else on a node uses a port, the job fails there, and its next attempt has other ports.
// A replica that restarts alone keeps its port, since its peers cannot learn another one.
func (g Gang) HostPort(n int32) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(g.UID))
	block := (int64(hash.Sum32()) + hostPortStride*int64(g.Attempt)) % hostPortBlocks
	return FirstHostPort + int32(block) + n%MaxHostPorts
}

// HasHostNetwork reports whether the pod of the member uses the network of its node.
func (m Member) HasHostNetwork() bool { return m.Role.Template.Spec.HostNetwork }

// DeclareHostPort declares that the container listens on a TCP port of the node, so that the scheduler places no other
// pod with that port there. A port that a container of the pod declares already is not declared again, which the API
// server would reject.
func DeclareHostPort(spec *corev1.PodSpec, container *corev1.Container, port int32) {
	for _, c := range spec.Containers {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.ContainerPort == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP)
		}) {
			return
		}
	}
	container.Ports = append(slices.Clone(container.Ports), corev1.ContainerPort{
		ContainerPort: port,
		HostPort:      port, // must be equal with hostNetwork
		Protocol:      corev1.ProtocolTCP,
	})
}

// PortOf returns the port that is the value of an environment variable of the container, or 0 if it is not known.
func PortOf(container *corev1.Container, variable string) int32 {
	for _, v := range slices.Backward(container.Env) { // of equal names the last one has effect
		if v.Name != variable {
			continue
		}
		port, err := strconv.ParseUint(v.Value, 10, 16)
		if err != nil {
			return 0
		}
		return int32(port)
	}
	return 0
}
