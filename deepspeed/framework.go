// Package deepspeed adapts DeepSpeed to the job controller. It sets the commands and the volumes with which worker 0
// launches the training of a DeepSpeedJob on all workers.
//
// Every worker runs the agent, which is the same program as the controller. The agent is an ssh server whose sessions
// have the environment of their container. On worker 0, the agent also runs the launcher. DeepSpeed reaches the
// workers with pdsh and the ssh client of the agent. So an image needs neither an ssh server nor an ssh client, and
// its container can run as any user.
package deepspeed

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/agent"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// Names of the container and the volumes that the controller adds to a pod.
const (
	installContainer = "install-agent"
	agentVolume      = "t9k-agent"
	keyVolume        = "t9k-ssh"
)

// envUnbuffered is the variable that makes Python print without a buffer.
const envUnbuffered = "PYTHONUNBUFFERED"

// Controller describes the deepspeed-controller.
func Controller() framework.Controller[*v1beta1.DeepSpeedJob] {
	return framework.Controller[*v1beta1.DeepSpeedJob]{
		Name:        "deepspeed-controller",
		AddToScheme: v1beta1.AddToScheme,
		Framework:   deepspeed{},
		Install:     agent.Install,
	}
}

type deepspeed struct{}

var (
	_ framework.Framework[*v1beta1.DeepSpeedJob]       = deepspeed{}
	_ framework.SecretFramework[*v1beta1.DeepSpeedJob] = deepspeed{}
	_ framework.Job                                    = &v1beta1.DeepSpeedJob{}
)

func (deepspeed) NewJob() *v1beta1.DeepSpeedJob { return &v1beta1.DeepSpeedJob{} }

func (deepspeed) MainContainers() []string { return []string{"worker"} }

func (d deepspeed) Wire(
	job *v1beta1.DeepSpeedJob, peers framework.Peers, member framework.Member, template *corev1.PodTemplateSpec,
) error {
	main := framework.MainContainer(d.MainContainers(), template.Spec.Containers)
	volumes := []corev1.Volume{
		{Name: agentVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: keyVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  d.SecretName(job),
			DefaultMode: ptr.To[int32](0o444), // readable for all, since the container can run as any user
		}}},
	}
	shared := corev1.VolumeMount{Name: agentVolume, MountPath: agent.Folder}
	// The CRD also refuses these paths, but not in every spelling.
	if err := framework.Mount(member, &template.Spec, main, volumes,
		shared,
		corev1.VolumeMount{Name: agentVolume, MountPath: agent.Hostfile, SubPath: path.Base(agent.Hostfile)},
		corev1.VolumeMount{Name: keyVolume, MountPath: path.Dir(agent.Key), ReadOnly: true},
	); err != nil {
		return err
	}
	if program := programOf(job); member.Rank == 0 && len(program) > 0 {
		if err := checkSize(peers, int(slotsOf(job)), program); err != nil {
			return err
		}
	}
	main.Command, main.Args = command(job, peers, member, *main), nil
	env := []corev1.EnvVar{{Name: envUnbuffered, Value: "1"}}
	if member.HasHostNetwork() {
		env = append(env, hostNetworkEnv(job, peers)...)
	}
	main.Env = framework.WithDefaults(main.Env, env)
	if member.HasHostNetwork() {
		declareHostPorts(job, peers, member, &template.Spec, main)
	}
	return peers.AddInstaller(member, &template.Spec, *main, installContainer, shared)
}

// command returns the command of the main container of a member. The command runs the agent. On the leader, the agent
// also runs the launcher, unless the job is in debug mode.
func command(
	job *v1beta1.DeepSpeedJob, peers framework.Peers, member framework.Member, main corev1.Container,
) []string {
	leads := member.Rank == 0 && !job.Spec.RunMode.Debugging() // in debug mode, the user launches the training
	subcommand := "serve"
	if leads {
		subcommand = "launch"
	}
	command := []string{
		path.Join(agent.Folder, "agent"), subcommand, "--host=" + hostFormat(peers),
		fmt.Sprintf("--workers=%d", len(peers.Members)), fmt.Sprintf("--slots=%d", slotsOf(job)),
	}
	if member.HasHostNetwork() {
		command = append(command, fmt.Sprintf("--port=%d", sshPort(job, peers, member.Index)))
	}
	if elastic := elasticOf(job); elastic != nil {
		command = append(command, fmt.Sprintf("--min-workers=%d", elastic.Least()),
			fmt.Sprintf("--max-workers=%d", elastic.Most()))
	}
	if job.Spec.DisableCustomEnv {
		for _, variable := range main.Env {
			command = append(command, "--without-env="+variable.Name)
		}
	}
	if !leads {
		return command
	}
	if most := maxRestarts(job); most > 0 {
		command = append(command, fmt.Sprintf("--max-restarts=%d", most),
			fmt.Sprintf("--restarts-port=%d", peers.SupervisorPort()), "--attempt="+peers.AttemptID())
	}
	for _, variable := range main.Env {
		// DeepSpeed's launcher prints the variables in its environment whose names begin with PYTHON. So it must not have
		// variables from Secrets with such names.
		if strings.HasPrefix(variable.Name, "PYTHON") && variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			command = append(command, "--secret-env="+variable.Name)
		}
	}
	return append(command, launcher(job, peers)...)
}

// hostFormat returns the format of the host names of the workers, with %d for the index.
func hostFormat(peers framework.Peers) string {
	return peers.FQDN(framework.Member{Name: peers.Job + "-" + v1beta1.WorkerType + "-%d"})
}

// launcher returns the last arguments of the agent on the leader: the flags about the launcher, and the command line of
// the launcher. The command line follows from the config and, after a pause, from resumeSpecs.
func launcher(job *v1beta1.DeepSpeedJob, peers framework.Peers) []string {
	config := ptr.Deref(job.Spec.Config, v1beta1.Config{})
	resume := resumeSpecOf(job)
	switch {
	case len(resume.Command) > 0:
		return slices.Concat([]string{"--"}, resume.Command, resume.Args)
	case config.CustomCommand != "":
		return slices.Concat([]string{"--", "/bin/sh", "-c", config.CustomCommand, "sh"}, resume.Args)
	}
	flags := []string{"--need=deepspeed", "--need=pdsh"}
	// Without --force_multi, the launcher would start the processes of a single host itself, in another environment.
	command := []string{"deepspeed", "--hostfile=" + agent.Hostfile}
	if first := peers.FQDN(peers.Leader()); !canLeaveOut(config.OtherArgs, first) {
		command = append(command, "--master_addr="+first)
	}
	command = append(command, "--force_multi")
	if peers.Leader().HasHostNetwork() {
		command = append(command, "--master_port=$("+envMasterPort+")")
	}
	if !ptr.Deref(config.LocalRank, true) {
		command = append(command, "--no_local_rank")
	}
	if autotunes(config) {
		flags = append(flags, "--trust-launcher") // a failed experiment of the autotuner is not a failure of the training
		command = append(command, "--autotuning="+string(config.Autotune))
	}
	run := ptr.Deref(config.Run, v1beta1.RunType{})
	switch {
	case len(run.Module) > 0:
		command = append(command, "--module")
	case len(run.Exec) > 0:
		command = append(command, "--no_python")
	}
	program := programOf(job)
	if slices.ContainsFunc(program, func(word string) bool { return !agent.IsPlain(word) }) {
		flags = append(flags, fmt.Sprintf("--program=%d", len(program)))
	}
	return slices.Concat(flags, []string{"--"}, command, config.OtherArgs, program)
}

// autotunes reports whether the launcher runs the autotuner.
func autotunes(config v1beta1.Config) bool {
	return config.Autotune != "" && config.Autotune != v1beta1.AutotuneNone
}

// canLeaveOut reports whether the options --include or --exclude of the launcher can leave out a host. If they leave
// out worker 0, rank 0 runs on another worker, and DeepSpeed itself finds the address of this worker.
func canLeaveOut(args []string, host string) bool {
	for i, arg := range args {
		name, value, isOneWord := strings.Cut(arg, "=")
		if !isOneWord && i+1 < len(args) {
			value = args[i+1]
		}
		// A value of these options is like host-1@host-2:0,2, where the numbers are slots of host-2. The function
		// "has" reports whether the value names the host. If the parameter slots is false, a host with numbers of slots
		// does not count.
		has := func(slots bool) bool {
			return slices.ContainsFunc(strings.Split(value, "@"), func(chosen string) bool {
				name, _, hasSlots := strings.Cut(chosen, ":")
				return name == host && (slots || !hasSlots)
			})
		}
		switch name {
		case "-i", "--include":
			if value != "" && !has(true) {
				return true
			}
		case "-e", "--exclude":
			if has(false) {
				return true
			}
		}
	}
	return false
}

// programOf returns the training program and its arguments. It returns nil in debug mode, in which the user launches
// the training. It also returns nil if a command from customCommand or resumeSpecs launches the training.
func programOf(job *v1beta1.DeepSpeedJob) []string {
	config, resume := ptr.Deref(job.Spec.Config, v1beta1.Config{}), resumeSpecOf(job)
	if job.Spec.RunMode.Debugging() || len(resume.Command) > 0 || config.CustomCommand != "" {
		return nil
	}
	run := ptr.Deref(config.Run, v1beta1.RunType{})
	for _, program := range [][]string{resume.Args, run.Module, run.Exec} {
		if len(program) > 0 {
			return program
		}
	}
	return run.Python
}
