package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/kit/model"
)

// nodeActions returns the events of nodes and devices.
func (w *walk) nodeActions() map[string]func(*rapid.T) {
	happens := func(what model.Mishap) func(*rapid.T) {
		return func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.happenTo(pod, what)
			}
		}
	}
	return map[string]func(*rapid.T){
		"a device becomes unhealthy":           happens(model.LosesItsDevice),
		"another device becomes unhealthy":     happens(model.LosesItsDevice),
		"the health of a device is unknown":    happens(model.ForgetsItsDevice),
		"a pod is evicted because of a device": happens(model.HasTaintedDevice),
		"a node is lost":                       happens(model.LosesItsNode),
		"a pod finds no node": func(t *rapid.T) {
			pod := w.oneOf(t, func(pod *corev1.Pod) bool {
				return pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil &&
					model.AvoidsNodes(pod) && !kubelet.IsUnschedulable(pod)
			})
			if pod != nil {
				w.happenTo(pod, model.FindsNoNode)
			}
		},
		"some minutes pass": func(*rapid.T) { w.Clock.SetTime(w.Clock.Now().Add(4 * time.Minute)) },
	}
}
