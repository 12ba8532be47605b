package framework

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// AddHelper adds a container that runs the controller's image to the template of a member, as the first of its init
// containers. The helper meets the restricted Pod Security Standard and does not change the QoS class of the pod:
//
//   - In a pod whose containers have requests or limits of CPU or memory, the helper has small requests and equal
//     limits, so that a Guaranteed pod stays Guaranteed.
//   - In a BestEffort pod, the helper has no resources. If the gang is scheduled all or nothing, it has small ones
//     nevertheless: Volcano counts a BestEffort pod as placed while it is pending (JobInfo.IsReady).
//   - In a pod with pod-level resources, the helper never has resources, because those of the pod might be smaller.
//
// AddHelper returns an error if the template cannot have the helper.
func (g Gang) AddHelper(
	member Member, spec *corev1.PodSpec, name string, args []string, mounts ...corev1.VolumeMount,
) error {
	roleType, needsResources := member.Role.Type, g.AllOrNothing
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		needsResources = needsResources || affectsQoS(c.Resources)
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
	if needsResources && (spec.Resources == nil || !affectsQoS(*spec.Resources)) {
		helper.Resources = helperResources()
	}
	spec.InitContainers = slices.Insert(slices.Clone(spec.InitContainers), 0, helper)
	return nil
}

// ReserveHelper adds a placeholder with the requests of a helper to a template, unless a helper has none. So the
// template requests at least what a pod with helpers requests. If the pod can have the sidecar that receives reports of
// progress, a second placeholder is for the sidecar. The placeholders request only resources that the template requests
// anyway: a quota might not cover others.
func ReserveHelper(spec *corev1.PodSpec, hasSidecar bool) {
	if spec.Resources != nil && affectsQoS(*spec.Resources) {
		return
	}
	requests := corev1.ResourceList{}
	for name, quantity := range helperResources().Requests {
		if slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
			_, isRequested := c.Resources.Requests[name]
			_, isLimited := c.Resources.Limits[name]
			return isRequested || isLimited
		}) {
			requests[name] = quantity
		}
	}
	if len(requests) == 0 {
		return
	}
	placeholder := corev1.Container{
		Name: "t9k-helper", Image: "t9k-helper", Resources: corev1.ResourceRequirements{Requests: requests},
	}
	spec.InitContainers = slices.Insert(slices.Clone(spec.InitContainers), 0, placeholder)
	if hasSidecar {
		placeholder.Name, placeholder.RestartPolicy = "t9k-sidecar", new(corev1.ContainerRestartPolicyAlways)
		spec.InitContainers = slices.Insert(spec.InitContainers, 0, placeholder)
	}
}

// helperResources returns the resources of a helper in a pod that is not BestEffort.
func helperResources() corev1.ResourceRequirements {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	return corev1.ResourceRequirements{Requests: resources, Limits: resources}
}

// affectsQoS reports whether the resources determine the QoS class of a pod. Only CPU and memory do: a pod with only
// other resources, such as GPUs, is BestEffort.
func affectsQoS(resources corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if !list.Cpu().IsZero() || !list.Memory().IsZero() {
			return true
		}
	}
	return false
}
