// Package pytorch adapts PyTorch to the job controller. It sets the environment and the command by which the replicas
// of a PyTorchTrainingJob find each other, with and without torchrun.
package pytorch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/pytorch/supervisor"
)

// Environment variables of the main container. torch.distributed's env:// initialization reads the first four.
const (
	envMasterAddr = "MASTER_ADDR"
	envMasterPort = "MASTER_PORT"
	envWorldSize  = "WORLD_SIZE"
	envRank       = "RANK"
	// Accelerate, DeepSpeed and most programs for torchrun read LOCAL_RANK. PyTorch Lightning reads LOCAL_RANK and
	// NODE_RANK: without NODE_RANK, each replica would be node 0.
	envLocalRank  = "LOCAL_RANK"
	envNodeRank   = "NODE_RANK"
	envUnbuffered = "PYTHONUNBUFFERED"
	// envLocalAddr is the variable from which torchrun, since torch 2.0, takes the default of its option --local_addr.
	// Other replicas reach the processes of this replica at this address, and torchrun uses it to tell replicas apart.
	// The variable also applies if the user's command runs torchrun.
	envLocalAddr = "PET_LOCAL_ADDR"
	// envUnsharedStore makes each round of the rendezvous announce its own address. By default, torch since 2.4
	// announces an address only in the first round. A replica that joins in a later round would wait for the address,
	// fail after a minute, and make all replicas restart. Versions before 2.4 announce an address in each round, and
	// ignore the variable.
	envUnsharedStore = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
)

// defaultPort is the port of a leader without hostNetwork. It is also the default of torchrun.
const defaultPort = 29500

// Controller describes the pytorch-controller.
func Controller() framework.Controller[*v1beta1.PyTorchTrainingJob] {
	return framework.Controller[*v1beta1.PyTorchTrainingJob]{
		Name:        "pytorch-controller",
		AddToScheme: v1beta1.AddToScheme,
		Framework:   pytorch{},
		Install:     supervisor.Install,
	}
}

type pytorch struct{}

var (
	_ framework.Framework[*v1beta1.PyTorchTrainingJob] = pytorch{}
	_ framework.TensorBoardJob                         = &v1beta1.PyTorchTrainingJob{}
)

func (pytorch) NewJob() *v1beta1.PyTorchTrainingJob { return &v1beta1.PyTorchTrainingJob{} }

func (pytorch) MainContainers() []string { return []string{"pytorch", "python"} }

func (p pytorch) Wire(
	job *v1beta1.PyTorchTrainingJob, peers framework.Peers, member framework.Member, template *corev1.PodTemplateSpec,
) error {
	main := framework.MainContainer(p.MainContainers(), template.Spec.Containers)
	env := []corev1.EnvVar{
		{Name: envMasterAddr, Value: peers.FQDN(peers.Leader())},
		{Name: envMasterPort, Value: strconv.Itoa(int(leaderPort(peers)))},
		{Name: envUnbuffered, Value: "1"},
	}
	if member.HasHostNetwork() {
		// By default, torchrun uses the host name, which is the name of the node in a pod with hostNetwork. Other pods
		// might not be able to resolve this name, and torchrun could not tell apart replicas on the same node.
		env = append(env, corev1.EnvVar{Name: envLocalAddr, Value: peers.FQDN(member)})
	}
	if job.RunsTorchrun() {
		env = append(env, corev1.EnvVar{Name: envUnsharedStore, Value: "1"})
		main.Command = torchrun(job, peers, member)
	} else if len(peers.Members) > 1 || !canHaveSeveralDevices(main.Resources) {
		// With torchrunConfig, torchrun sets these variables for each of its processes. A single replica with several
		// devices must not have these variables, so that its program can start a process for each device: with the
		// variables, PyTorch Lightning would use only the first device.
		env = append(env,
			corev1.EnvVar{Name: envWorldSize, Value: strconv.Itoa(len(peers.Members))},
			corev1.EnvVar{Name: envRank, Value: strconv.Itoa(int(member.Rank))},
			corev1.EnvVar{Name: envLocalRank, Value: "0"},
			corev1.EnvVar{Name: envNodeRank, Value: strconv.Itoa(int(member.Rank))},
		)
	}
	main.Env = framework.WithDefaults(main.Env, env)
	if member.Rank == 0 && member.HasHostNetwork() {
		if port := framework.PortOf(main, envMasterPort); port != 0 {
			framework.DeclareHostPort(&template.Spec, main, port)
		}
	}
	if with := supervisionOf(job, peers, member); with != nil {
		return supervise(*with, peers, member, &template.Spec, main)
	}
	return nil
}

// canHaveSeveralDevices reports whether a container has several devices, or a ResourceClaim, which can be for
// several.
func canHaveSeveralDevices(resources corev1.ResourceRequirements) bool {
	for name, quantity := range resources.Limits {
		if framework.IsDevice(name) && quantity.Value() > 1 {
			return true
		}
	}
	return len(resources.Claims) > 0
}

// leaderPort returns the port that the leader listens on. All other ports of a job are ephemeral.
func leaderPort(peers framework.Peers) int32 {
	if peers.Leader().HasHostNetwork() {
		return peers.HostPort(0)
	}
	return defaultPort
}

// joinTimeout is how long torchrun waits for the others in the rendezvous, with the scope Rendezvous: a year, in
// seconds. With torchrun's default of 10 minutes, a cluster without room for a new pod would make the job fail.
const joinTimeout = 365 * 24 * 60 * 60

// torchrun returns the command line that launches the processes of one member.
//
// The endpoint of the rendezvous refers to MASTER_ADDR and MASTER_PORT, so values that the user sets for these
// variables also apply to the endpoint. The c10d backend must know which member hosts its store. By default, torch
// compares names to find out, but this does not work with every name service. So the command line sets is_host.
func torchrun(job *v1beta1.PyTorchTrainingJob, peers framework.Peers, member framework.Member) []string {
	config, elastic := *job.Spec.TorchrunConfig, elasticOf(job)
	nodes := strconv.Itoa(len(peers.Members))
	if elastic != nil {
		nodes = fmt.Sprintf("%d:%d", elastic.Least(), elastic.Most()) // the limits, since the number of members changes
	}
	command := []string{"torchrun", "--nnodes=" + nodes}
	if config.ProcPerNode != "" {
		command = append(command, "--nproc_per_node="+config.ProcPerNode)
	}
	switch {
	case hasBudget(job):
		command = append(command, "--max_restarts="+strconv.Itoa(unlimited))
	case config.MaxRestarts != nil:
		command = append(command, "--max_restarts="+strconv.Itoa(int(*config.MaxRestarts)))
	}
	backend := rendezvousBackend(config)
	command = append(command,
		"--rdzv_backend="+backend,
		"--rdzv_id="+peers.AttemptID()) // members of an earlier attempt cannot join
	options := config.ExtraOptions
	if backend == c10d {
		isHost := 0
		if member.Rank == 0 {
			isHost = 1
		}
		settings := []string{fmt.Sprintf("is_host=%d", isHost)}
		if job.Spec.RunPolicy.RestartScope == batchv1beta1.RestartScopeRendezvous {
			settings = append(settings, fmt.Sprintf("join_timeout=%d", joinTimeout))
		}
		settings, options = rendezvousSettings(settings, options)
		command = append(command,
			fmt.Sprintf("--rdzv_endpoint=$(%s):$(%s)", envMasterAddr, envMasterPort),
			"--rdzv_conf="+strings.Join(settings, ","))
	}
	return slices.Concat(command, options)
}

// Rendezvous backends of torchrun.
const (
	c10d   = "c10d" // the default: the torchrun of the leader has the store
	static = "static"
)

// rendezvousBackend returns the rendezvous backend of torchrun.
func rendezvousBackend(config v1beta1.TorchrunConfig) string { return cmp.Or(config.RdzvBackend, c10d) }

// rendezvousSettings moves the values of the user's --rdzv_conf flags from the options to the settings, since torchrun
// uses only the last of several such flags. If settings have the same name, torchrun uses the last one, so the user's
// setting overrides ours.
func rendezvousSettings(settings, options []string) (allSettings, otherOptions []string) {
	for i := 0; i < len(options); i++ {
		flag, value, hasValue := strings.Cut(options[i], "=")
		if flag != "--rdzv_conf" && flag != "--rdzv-conf" {
			otherOptions = append(otherOptions, options[i])
			continue
		}
		if !hasValue && i+1 < len(options) {
			i++
			value = options[i]
		}
		settings = append(settings, value)
	}
	return settings, otherOptions
}
