package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// WithDefaults puts the defaults before the environment of a container, so that $(NAME) of a default expands in what
// follows. A variable that the container sets itself wins. One that comes by envFrom does not, since nobody knows the
// names: the controllers read no ConfigMaps and Secrets.
func WithDefaults(env, defaults []corev1.EnvVar) []corev1.EnvVar {
	merged := make([]corev1.EnvVar, 0, len(env)+len(defaults))
	for _, d := range defaults {
		if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == d.Name }) {
			merged = append(merged, d)
		}
	}
	return append(merged, env...)
}
