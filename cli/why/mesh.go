package why

import (
	"fmt"
	"slices"
	"strings"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// proxies maps the name of the proxy container of each service mesh to the label or annotation that keeps a pod out
// of the mesh.
var proxies = map[string]string{
	"istio-proxy":   `label sidecar.istio.io/inject: "false"`,
	"linkerd-proxy": "annotation linkerd.io/inject: disabled",
}

// doAboutMesh returns the advice about a failed replica in a service mesh if the replica failed because a connection
// was reset. For all other failures, the advice is empty.
func (v view) doAboutMesh(failure batchv1beta1.ReplicaFailure) string {
	pod := v.pod(failure.Replica)
	if pod == nil || !strings.Contains(strings.ToLower(failure.Message), "connection reset by peer") {
		return ""
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if exclusion, isProxy := proxies[c.Name]; isProxy {
			return fmt.Sprintf("The pod has the proxy %s of a service mesh, which can reset connections between replicas. "+
				"If no other replica failed before, keep the pods out of the mesh: give the template the %s.", c.Name, exclusion)
		}
	}
	return ""
}
