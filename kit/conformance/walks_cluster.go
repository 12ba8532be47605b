package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// clusterActions are what happens on clusters as they are, besides what goes wrong with every controller.
func (w *walk) clusterActions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"the controller is away for long, while pods end and are let go": func(t *rapid.T) {
			for range rapid.IntRange(0, 2).Draw(t, "pods that end") {
				if pod := w.some(t, corev1.PodRunning); pod != nil {
					w.exit(pod, 1)
				}
			}
			for w.confirmDeletion() {
				continue
			}
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.start(nil)
		},
		"the API server carries out what it is late with": func(*rapid.T) {
			if w.late != nil {
				late := w.late
				w.late = nil
				w.unseen = late.CarryOut(w.cluster)
				w.spoil(w.unseen)
			}
		},
		"somebody else takes the name of a pod": func(t *rapid.T) {
			name := w.podName(rapid.IntRange(0, 2).Draw(t, "index"))
			key := types.NamespacedName{Namespace: model.JobKey.Namespace, Name: name}
			if w.cluster.Live()[model.Key("Pod", key)] == nil {
				w.create(model.Foreign(model.Pods, name))
			}
		},
		"the names of pods are free again": func(*rapid.T) { w.namesAreFree() },
		"the kubelet restarts a container in its pod": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.failed++
				w.spoil(pod.UID)
				w.befall(pod, model.RestartsInPlace(1))
			}
		},
	}
	if !w.scales { // a replica that is given up needs no successor, and then nobody finds such a pod
		actions["somebody takes a label off a pod"] = func(t *rapid.T) {
			label := rapid.SampledFrom([]string{batchv1beta1.LabelJobKind, batchv1beta1.LabelAttempt}).Draw(t, "label")
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.spoil(pod.UID)
				w.befall(pod, model.LosesLabel(label))
			}
		}
	}
	return actions
}

// spoil lets nothing more happen to a pod, since it would not count.
func (w *walk) spoil(pod types.UID) {
	if pod != "" {
		w.spoiled[pod] = true
	}
}

// namesAreFree lets somebody else delete what has a name of the job.
func (w *walk) namesAreFree() {
	for _, object := range w.cluster.Live().Foreign(model.Pods) {
		w.remove(object)
	}
}
