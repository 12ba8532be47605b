package framework

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Mount adds volumes to the template of a member, and mounts them in the main container. The names of the volumes and
// the paths of the mounts are reserved: Mount returns an error if the template has a volume with such a name, or uses
// such a path or a path below it in the main container. The paths must be absolute and clean. Mount cleans the paths of
// the template before it compares them.
func Mount(
	member Member, spec *corev1.PodSpec, main *corev1.Container, volumes []corev1.Volume, mounts ...corev1.VolumeMount,
) error {
	isReserved := func(name string) bool {
		return slices.ContainsFunc(mounts, func(reserved corev1.VolumeMount) bool {
			return strings.HasPrefix(path.Clean("/"+name)+"/", reserved.MountPath+"/")
		})
	}
	for _, mount := range main.VolumeMounts {
		if isReserved(mount.MountPath) {
			return fmt.Errorf("the template of type %q mounts a volume at %s, which is reserved", member.Role.Type,
				mount.MountPath)
		}
	}
	for _, device := range main.VolumeDevices {
		if isReserved(device.DevicePath) {
			return fmt.Errorf("the template of type %q has a device at %s, which is reserved", member.Role.Type,
				device.DevicePath)
		}
	}
	for _, volume := range spec.Volumes {
		if slices.ContainsFunc(volumes, func(reserved corev1.Volume) bool { return reserved.Name == volume.Name }) {
			return fmt.Errorf("the template of type %q has a volume named %q, which is reserved", member.Role.Type, volume.Name)
		}
	}
	main.VolumeMounts = append(slices.Clone(main.VolumeMounts), mounts...)
	spec.Volumes = append(slices.Clone(spec.Volumes), volumes...)
	return nil
}
