package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// WithDefaults returns the environment of a container with the defaults prepended, so that later variables can refer
// to a default by $(NAME). A variable that the container sets in env overrides the default. A variable from envFrom
// does not override a default: its name is unknown, because the controllers do not read ConfigMaps and Secrets.
func WithDefaults(env, defaults []corev1.EnvVar) []corev1.EnvVar {
	merged := make([]corev1.EnvVar, 0, len(env)+len(defaults))
	for _, d := range defaults {
		if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == d.Name }) {
			merged = append(merged, d)
		}
	}
	return append(merged, env...)
}
