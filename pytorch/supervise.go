package pytorch

import (
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/pytorch/supervisor"
)

// Names of the container and the volume that the controller adds to a pod whose torchrun is supervised.
const (
	supervisorContainer = "install-supervisor"
	supervisorVolume    = "t9k-supervisor"
)

// unlimited is the limit of restarts of a torchrun whose supervisor has the limit.
const unlimited = 1_000_000

// isSupervised reports whether the replicas of the job run torchrun under a supervisor.
func isSupervised(job *v1beta1.PyTorchTrainingJob) bool {
	return job.RunsTorchrun() && !job.Spec.RunMode.Debugging()
}

// supervisionOf returns the options of the supervisor for the torchrun of the member, or nil if the member runs no
// torchrun.
func supervisionOf(
	job *v1beta1.PyTorchTrainingJob, peers framework.Peers, member framework.Member,
) *supervisor.Options {
	if !isSupervised(job) {
		return nil
	}
	config := *job.Spec.TorchrunConfig
	options := &supervisor.Options{PassesSignals: rendezvousBackend(config) == static}
	if limits := hasBudget(job); limits || knowsOrder(job, peers) {
		options.Budget = &supervisor.Budget{
			Restarts: int(ptr.Deref(config.MaxRestarts, 0)), ID: peers.AttemptID(), Replica: member.Name,
			Leader:   net.JoinHostPort(peers.FQDN(peers.Leader()), strconv.Itoa(int(peers.SupervisorPort()))),
			IsLeader: member.Rank == 0, OnlyOrder: !limits,
		}
	}
	return options
}

// hasBudget reports whether the supervisors of a job with torchrun limit the restarts in place. Otherwise, torchrun
// does: if no restart is possible, with a limit in extraOptions, or with the backend static, with which the replicas
// have no rounds in common. If replicas are replaced alone, torchrun starts the processes again even without
// maxRestarts.
func hasBudget(job *v1beta1.PyTorchTrainingJob) bool {
	config := *job.Spec.TorchrunConfig
	canRestart := ptr.Deref(config.MaxRestarts, 0) > 0 || elasticOf(job) != nil ||
		job.Spec.RunPolicy.RestartScope == batchv1beta1.RestartScopeRendezvous
	return canRestart && hasRounds(config)
}

// knowsOrder reports whether the supervisors of a job that cannot restart in place find out which process failed first,
// so that the controller need not wait for the reports of other replicas.
func knowsOrder(job *v1beta1.PyTorchTrainingJob, peers framework.Peers) bool {
	return len(peers.Members) > 1 && hasRounds(*job.Spec.TorchrunConfig)
}

// hasRounds reports whether the replicas have the rounds of a rendezvous in common, and the options set no limit of
// restarts.
func hasRounds(config v1beta1.TorchrunConfig) bool {
	return rendezvousBackend(config) != static && !slices.ContainsFunc(config.ExtraOptions, func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return name == "--max_restarts" || name == "--max-restarts"
	})
}

// supervise puts the command of a supervisor before the command of the main container, and adds an init container
// that installs the supervisor. It returns an error if the template uses a path or a name that is reserved for the
// controller.
func supervise(
	with supervisor.Options, peers framework.Peers, member framework.Member, spec *corev1.PodSpec, main *corev1.Container,
) error {
	shared := corev1.VolumeMount{Name: supervisorVolume, MountPath: supervisor.Folder}
	volume := corev1.Volume{
		Name: supervisorVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}
	if err := framework.Mount(member, spec, main, []corev1.Volume{volume}, shared); err != nil {
		return err
	}
	main.Command = slices.Concat(with.Command(), main.Command)
	if with.Budget != nil && with.Budget.IsLeader && member.HasHostNetwork() {
		framework.DeclareHostPort(spec, main, peers.SupervisorPort())
	}
	return peers.AddInstaller(member, spec, *main, supervisorContainer, shared)
}
