package framework

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// AddHelper puts before the init containers of a template one that runs the controller's own image. It meets the restricted Pod Security
// standard, and leaves the quality of service of the pod as it is: it asks for little, with limits, so that a pod whose containers all have
// limits stays Guaranteed, and for nothing where no other container does. In a pod that has resources of its own it takes of those, which
// might be less. An error says why the template cannot have it.
func AddHelper(roleType string, spec *corev1.PodSpec, name, image string, args []string, mounts ...corev1.VolumeMount) error {
	haveResources := false
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		haveResources = haveResources || len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0
		if c.Name == name {
			return fmt.Errorf("the template of type %q has a container named %q, which is reserved", roleType, name)
		}
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return fmt.Errorf("the template of type %q is for Windows, but the container %q of its pods is for Linux", roleType, name)
	}
	helper := corev1.Container{
		Name:         name,
		Image:        image,
		Args:         args,
		VolumeMounts: mounts,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot:             new(true),
			RunAsUser:                ptr.To[int64](65532),
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if haveResources && spec.Resources == nil {
		resources := corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		}
		helper.Resources = corev1.ResourceRequirements{Requests: resources, Limits: resources}
	}
	spec.InitContainers = slices.Insert(slices.Clone(spec.InitContainers), 0, helper)
	return nil
}
