package deepspeed

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/agent"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// envMasterPort is the variable with the port of worker 0 at which the training processes of all workers meet.
const envMasterPort = "MASTER_PORT"

// sshPort returns the port of the agent's ssh server on a worker with hostNetwork. HostPort(0) is MASTER_PORT. In a job
// with restarts in place, HostPort(1) is the SupervisorPort, and the ports of the ssh servers follow. Such a job has at
// most 1024 workers, so its ports are below that of the progress.
func sshPort(job *v1beta1.DeepSpeedJob, peers framework.Peers, worker int32) int32 {
	first := int32(1)
	if maxRestarts(job) > 0 {
		first = 2
	}
	return peers.HostPort(first + worker)
}

// hostNetworkEnv returns the environment variables with the ports of the job. They are set in the main container, so
// that customCommand and users in debug mode can read them.
func hostNetworkEnv(job *v1beta1.DeepSpeedJob, peers framework.Peers) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: envMasterPort, Value: strconv.Itoa(int(peers.HostPort(0)))},
		{Name: agent.EnvAddresses, Value: agent.Addresses(hostFormat(peers), int(sshPort(job, peers, 0)))},
	}
}

// declareHostPorts declares the ports that the member listens on.
func declareHostPorts(
	job *v1beta1.DeepSpeedJob, peers framework.Peers, member framework.Member, spec *corev1.PodSpec,
	main *corev1.Container,
) {
	framework.DeclareHostPort(spec, main, sshPort(job, peers, member.Index))
	if member.Rank != 0 {
		return
	}
	if maxRestarts(job) > 0 {
		framework.DeclareHostPort(spec, main, peers.SupervisorPort())
	}
	if port := framework.PortOf(main, envMasterPort); port != 0 {
		framework.DeclareHostPort(spec, main, port)
	}
}
