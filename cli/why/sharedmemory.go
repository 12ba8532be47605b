package why

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// sharedMemory matches the messages of PyTorch and NCCL about too little shared memory.
var sharedMemory = regexp.MustCompile(`killed by signal: Bus error|shared memory ?\(shm\)|` +
	`out of shared memory\. Please|unable to write to file </torch_|Error while creating shared memory segment /dev/shm/`)

// doAboutSharedMemory returns the advice about a replica that had too little shared memory. It is empty for all other
// failures.
func (v view) doAboutSharedMemory(failure batchv1beta1.ReplicaFailure) string {
	isBusError := failure.ExitCode != nil && *failure.ExitCode == 135 || failure.RankExitCode != nil &&
		*failure.RankExitCode == 135 || failure.RankSignal == "SIGBUS"
	if !isBusError && !sharedMemory.MatchString(failure.Message) || initFailed.MatchString(firstLine(failure.Message)) {
		return ""
	}
	const orFewer = "The shared memory counts towards the memory limit of the container. Or use fewer workers of " +
		"the data loader."
	if v.mounts(failure.Replica, "/dev/shm") {
		return "Raise the sizeLimit of the volume at /dev/shm, if it has one, or the memory limit. " + orFewer
	}
	return "Without a volume at /dev/shm, a container has only 64 MiB of shared memory. In the template, mount an " +
		"emptyDir with medium Memory there. " + orFewer
}

// mounts reports whether the main container of a replica has a volume at a path.
func (v view) mounts(replica, path string) bool {
	main := v.mainContainer(replica)
	return main != nil && slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == path
	})
}
