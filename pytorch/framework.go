// Package pytorch runs PyTorchTrainingJobs: it tells the job controller how the replicas of a PyTorch training find
// each other, with torchrun and without.
package pytorch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// Environment of the main container, as torch.distributed's env:// initialization reads it.
const (
	envMasterAddr = "MASTER_ADDR"
	envMasterPort = "MASTER_PORT"
	envWorldSize  = "WORLD_SIZE"
	envRank       = "RANK"
	envUnbuffered = "PYTHONUNBUFFERED"
	// envLocalAddr is the default of torchrun's --local_addr, from torch 2.0: the address by which other replicas reach
	// the processes of this one, and which tells it from others. The torchrun of a user's own command reads it, too.
	envLocalAddr = "PET_LOCAL_ADDR"
)

// defaultPort is the port of the leader. It is torchrun's default too.
const defaultPort = 29500

// Controller describes the pytorch-controller.
func Controller() manager.Controller[*v1beta1.PyTorchTrainingJob] {
	return manager.Controller[*v1beta1.PyTorchTrainingJob]{
		Name:        "pytorch-controller",
		AddToScheme: v1beta1.AddToScheme,
		Framework:   pytorch{},
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
	job *v1beta1.PyTorchTrainingJob, gang framework.Gang, member framework.Member, template *corev1.PodTemplateSpec,
) error {
	main := framework.MainContainer(p.MainContainers(), template.Spec.Containers)
	if main == nil {
		return fmt.Errorf("the template of type %q has no container", member.Role.Type)
	}
	env := []corev1.EnvVar{
		{Name: envMasterAddr, Value: gang.FQDN(gang.Leader())},
		{Name: envMasterPort, Value: strconv.Itoa(int(leaderPort(gang)))},
		{Name: envUnbuffered, Value: "1"},
	}
	if member.HasHostNetwork() {
		// By default it is the host name, which is that of the node: pods may be unable to resolve it, and torchrun
		// would take replicas on one node for the same one.
		env = append(env, corev1.EnvVar{Name: envLocalAddr, Value: gang.FQDN(member)})
	}
	if usesTorchrun(job) {
		main.Command = torchrun(*job.Spec.TorchrunConfig, elasticOf(job), gang, member)
	} else {
		// torchrun sets these itself, for each of its processes.
		env = append(env,
			corev1.EnvVar{Name: envWorldSize, Value: strconv.Itoa(len(gang.Members))},
			corev1.EnvVar{Name: envRank, Value: strconv.Itoa(int(member.Rank))},
		)
	}
	main.Env = framework.WithDefaults(main.Env, env)
	if member.Rank == 0 && member.HasHostNetwork() {
		if port := framework.PortOf(main, envMasterPort); port != 0 {
			framework.DeclareHostPort(&template.Spec, main, port)
		}
	}
	return nil
}

// leaderPort returns the port that the leader listens on. The other ports of a training are ephemeral ones.
func leaderPort(gang framework.Gang) int32 {
	if gang.Leader().HasHostNetwork() {
		return gang.HostPort(0)
	}
	return defaultPort
}

// torchrun returns the command line that launches the processes of one member.
//
// The endpoint is written with the variables, so that a MASTER_ADDR or MASTER_PORT of the user's own holds here too.
// The c10d backend must know which member hosts its store; torch recognizes itself by name, but not with every name
// service, so it is told. The id keeps members of an earlier attempt out.
func torchrun(
	config v1beta1.TorchrunConfig, elastic *batchv1beta1.ElasticConfig, gang framework.Gang, member framework.Member,
) []string {
	nodes := strconv.Itoa(len(gang.Members))
	if elastic != nil {
		nodes = fmt.Sprintf("%d:%d", elastic.Least(), elastic.Most()) // not how many there are now: that changes
	}
	command := []string{"torchrun", "--nnodes=" + nodes}
	if config.ProcPerNode != "" {
		command = append(command, "--nproc_per_node="+config.ProcPerNode)
	}
	if config.MaxRestarts != nil {
		command = append(command, "--max_restarts="+strconv.Itoa(int(*config.MaxRestarts)))
	}
	backend := config.RdzvBackend
	if backend == "" {
		backend = "c10d"
	}
	command = append(command,
		"--rdzv_backend="+backend,
		fmt.Sprintf("--rdzv_id=%s-%d", gang.UID, gang.Attempt))
	options := config.ExtraOptions
	if backend == "c10d" {
		isHost := 0
		if member.Rank == 0 {
			isHost = 1
		}
		settings := []string{fmt.Sprintf("is_host=%d", isHost)}
		settings, options = rendezvousSettings(settings, options)
		command = append(command,
			fmt.Sprintf("--rdzv_endpoint=$(%s):$(%s)", envMasterAddr, envMasterPort),
			"--rdzv_conf="+strings.Join(settings, ","))
	}
	return slices.Concat(command, options)
}

// rendezvousSettings moves the user's --rdzv_conf from the options to the settings, since torchrun heeds only the last
// of these flags. Of settings of the same name it heeds the last, so that the user's wins.
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
