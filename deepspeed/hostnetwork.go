package deepspeed

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/agent"
)

// envMasterPort is the variable with the port of worker 0 at which the training processes of all workers meet.
const envMasterPort = "MASTER_PORT"

// sshPort returns the port of the agent's ssh server on a worker with hostNetwork. The ports of the ssh servers begin
// with HostPort(1), because HostPort(0) is MASTER_PORT.
func sshPort(peers framework.Peers, worker int32) int32 { return peers.HostPort(1 + worker) }

// hostNetworkEnv returns the environment variables with the ports of the job. They are set in the main container, so
// that customCommand and users in debug mode can read them.
func hostNetworkEnv(peers framework.Peers) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: envMasterPort, Value: strconv.Itoa(int(peers.HostPort(0)))},
		{Name: agent.EnvAddresses, Value: agent.Addresses(hostFormat(peers), int(sshPort(peers, 0)))},
	}
}

// declareHostPorts declares the ports that the member listens on.
func declareHostPorts(peers framework.Peers, member framework.Member, spec *corev1.PodSpec, main *corev1.Container) {
	framework.DeclareHostPort(spec, main, sshPort(peers, member.Index))
	if member.Rank != 0 {
		return
	}
	if port := framework.PortOf(main, envMasterPort); port != 0 {
		framework.DeclareHostPort(spec, main, port)
	}
}
