package framework

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// IsDevice reports whether a resource counts devices. Kubernetes calls such a resource an extended resource.
func IsDevice(name corev1.ResourceName) bool {
	domain, _, isQualified := strings.Cut(string(name), "/")
	return isQualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}
