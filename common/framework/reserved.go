package framework

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reserved contains the paths and volumes that a framework adds to the pods of its members. Templates cannot use
// them.
type Reserved struct {
	// Paths are absolute paths in the main container. They and all paths below them are reserved.
	Paths []string
	// Volumes are the names of volumes.
	Volumes []string
}

// Check returns an error if the template of a member uses a reserved path in the main container, or a reserved name
// of a volume. It cleans paths before it compares them.
func (r Reserved) Check(member Member, spec corev1.PodSpec, main corev1.Container) error {
	isReserved := func(name string) bool {
		return slices.ContainsFunc(r.Paths, func(reserved string) bool {
			return strings.HasPrefix(path.Clean("/"+name)+"/", reserved+"/")
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
		if slices.Contains(r.Volumes, volume.Name) {
			return fmt.Errorf("the template of type %q has a volume named %q, which is reserved", member.Role.Type, volume.Name)
		}
	}
	return nil
}
