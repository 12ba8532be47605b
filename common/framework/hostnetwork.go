package framework

import (
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Replicas with hostNetwork use ports from FirstHostPort to LastHostPort. The range overlaps neither the ports of
// NodePort Services in Kubernetes (30000 to 32767) nor the ephemeral ports of Linux (from 32768).
const (
	FirstHostPort = 20000
	LastHostPort  = 26003
)

const (
	// MaxHostPorts is the maximum number of ports of a job: one for each of up to 2,000 replicas, one more for the
	// framework, and one for reports of progress.
	MaxHostPorts = 2002
	// hostPortBlocks is the number of ports at which the block of a job can begin. A block is MaxHostPorts consecutive
	// ports, and blocks can overlap. The number is prime, so that steps of hostPortStride reach every block before they
	// reach one twice.
	hostPortBlocks = LastHostPort - FirstHostPort + 1 - (MaxHostPorts - 1)
	// hostPortStride is the distance between the blocks of successive attempts. These blocks have at most one port in
	// common, the one for reports of progress. All versions of the controller must have the same stride: during an
	// upgrade, two versions can create pods of one attempt, and both must choose the same ports.
	hostPortStride = 2001
)

// HostPort returns port number n of the job in its current attempt, where 0 is the first. Ports repeat if n is
// MaxHostPorts or more, but the limits of the CRDs prevent that. A replica with hostNetwork listens on this port
// instead of the default port of the framework, because all replicas of all jobs on a node need different ports.
//
// The ports of a job are distinct. They depend only on the UID and the attempt, so that each replica knows the ports of
// the others. The scheduler places pods of different jobs that have the same port on different nodes; see
// DeclareHostPort. If another process on a node uses a port, the job fails there, and its next attempt has other ports.
// A replica that restarts alone keeps its port, because its peers cannot learn a new one.
func (p Peers) HostPort(n int32) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(p.UID))
	block := (int64(hash.Sum32()) + hostPortStride*int64(p.Attempt)) % hostPortBlocks
	return FirstHostPort + int32(block) + n%MaxHostPorts
}

// HasHostNetwork reports whether the pod of the member uses the network of its node.
func (m Member) HasHostNetwork() bool { return m.Role.Template.Spec.HostNetwork }

// DeclareHostPort declares that the container listens on a TCP port of the node, so that the scheduler places no other
// pod with that port on the node. It does nothing if a container of the pod already declares the port: the API server
// rejects duplicate ports.
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
		HostPort:      port, // with hostNetwork, both must be equal
		Protocol:      corev1.ProtocolTCP,
	})
}

// PortOf returns the port in an environment variable of the container, or 0 if the value is unknown or not a port.
func PortOf(container *corev1.Container, variable string) int32 {
	for _, v := range slices.Backward(container.Env) { // the last variable of a name takes effect
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
