package pytorch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/pytorch/supervisor"
)

// Names of the container and the volume that the controller adds to a pod whose torchrun is supervised.
const (
	supervisorContainer = "install-supervisor"
	supervisorVolume    = "t9k-supervisor"
)

// isSupervised reports whether the torchrun of the member must leave the rendezvous open when the member is stopped,
// because the other members continue without it. They never continue without the leader.
func isSupervised(job *v1beta1.PyTorchTrainingJob, member framework.Member) bool {
	return usesTorchrun(job) && member.Rank != 0 && !job.Spec.RunMode.Debugging() &&
		policy.Scope(pytorch{}.JobSpec(job)) == batchv1beta1.RestartScopeReplica
}

// supervise makes the main container run its command under the supervisor, which an init container installs. It returns
// an error if the template uses a path or a name that is reserved for the controller.
func supervise(gang framework.Gang, member framework.Member, spec *corev1.PodSpec, main *corev1.Container) error {
	reserved := framework.Reserved{Paths: []string{supervisor.Folder}, Volumes: []string{supervisorVolume}}
	if err := reserved.Check(member, *spec, *main); err != nil {
		return err
	}
	main.Command = slices.Concat([]string{supervisor.Program}, main.Command)
	shared := corev1.VolumeMount{Name: supervisorVolume, MountPath: supervisor.Folder}
	main.VolumeMounts = append(slices.Clone(main.VolumeMounts), shared)
	spec.Volumes = append(slices.Clone(spec.Volumes), corev1.Volume{
		Name: supervisorVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	args := []string{supervisor.InstallName, supervisor.Folder}
	return gang.AddHelper(member, spec, supervisorContainer, args, shared)
}
