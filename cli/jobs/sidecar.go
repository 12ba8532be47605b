package jobs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// IsSidecar reports whether an init container is a sidecar, which runs beside the other containers of the pod.
func IsSidecar(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}
