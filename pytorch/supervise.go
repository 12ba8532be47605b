package pytorch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/pytorch/supervisor"
)

// Names of the container and the volume that the controller adds to a pod whose torchrun is supervised.
const (
	supervisorContainer = "install-supervisor"
	supervisorVolume    = "t9k-supervisor"
)

// supervision returns the command of the supervisor for the torchrun of the member. The command line of torchrun
// follows this command. The result is empty if the member runs no torchrun.
func supervision(job *v1beta1.PyTorchTrainingJob) []string {
	if !job.RunsTorchrun() || job.Spec.RunMode.Debugging() {
		return nil
	}
	if rendezvousBackend(*job.Spec.TorchrunConfig) == static {
		return []string{supervisor.Program, supervisor.PassSignals}
	}
	return []string{supervisor.Program}
}

// supervise puts the command of a supervisor before the command of the main container, and adds an init container
// that installs the supervisor. It returns an error if the template uses a path or a name that is reserved for the
// controller.
func supervise(
	with []string, peers framework.Peers, member framework.Member, spec *corev1.PodSpec, main *corev1.Container,
) error {
	shared := corev1.VolumeMount{Name: supervisorVolume, MountPath: supervisor.Folder}
	volume := corev1.Volume{
		Name: supervisorVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}
	if err := framework.Mount(member, spec, main, []corev1.Volume{volume}, shared); err != nil {
		return err
	}
	main.Command = slices.Concat(with, main.Command)
	return peers.AddInstaller(member, spec, *main, supervisorContainer, shared)
}
