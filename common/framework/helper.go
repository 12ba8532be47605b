package framework

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// AddHelper puts before the init containers of a member's template one that runs the controller's own image. It meets
// the restricted Pod Security standard, and leaves the quality of service of the pod as it is: it asks for little, with
// limits, so that a pod whose containers all have limits stays Guaranteed, and for nothing in a pod that is BestEffort.
// In a pod that has resources of its own it takes of those, which might be less. Where all or nothing is scheduled it
// asks for little even so, since Volcano counts a BestEffort pod as placed while it is pending (JobInfo.IsReady). An
// error says why the template cannot have it.
func (g Gang) AddHelper(
	member Member, spec *corev1.PodSpec, name string, args []string, mounts ...corev1.VolumeMount,
) error {
	roleType, needsResources := member.Role.Type, g.AllOrNothing
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		needsResources = needsResources || asks(c.Resources)
		if c.Name == name {
			return fmt.Errorf("the template of type %q has a container named %q, which is reserved", roleType, name)
		}
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return fmt.Errorf("the template of type %q is for Windows, but the container %q of its pods is for Linux", roleType,
			name)
	}
	helper := corev1.Container{
		Name:         name,
		Image:        g.Image,
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
	if needsResources && (spec.Resources == nil || !asks(*spec.Resources)) {
		resources := corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		}
		helper.Resources = corev1.ResourceRequirements{Requests: resources, Limits: resources}
	}
	spec.InitContainers = slices.Insert(slices.Clone(spec.InitContainers), 0, helper)
	return nil
}

// asks says that the resources are such as decide about the quality of service of a pod: of other ones, such as GPUs,
// it stays BestEffort.
func asks(resources corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if !list.Cpu().IsZero() || !list.Memory().IsZero() {
			return true
		}
	}
	return false
}
