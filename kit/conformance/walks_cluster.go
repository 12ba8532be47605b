package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// clusterActions returns the actions of other components of a cluster. They happen in addition to the faults of the
// controller and its caches.
func (w *walk) clusterActions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"the controller is away for an hour while pods end and are removed": func(t *rapid.T) {
			for range rapid.IntRange(0, 2).Draw(t, "number of pods that end") {
				if pod := w.some(t, corev1.PodRunning); pod != nil {
					w.exit(pod, 1)
				}
			}
			for w.confirmDeletion() {
				continue
			}
			w.Clock.SetTime(w.Clock.Now().Add(time.Hour))
			w.start(nil)
		},
		"the API server makes its delayed write": func(*rapid.T) {
			if w.Late != nil {
				w.CarryOutLate()
				w.spoil(w.Unseen)
			}
		},
		"another owner takes the name of a pod": func(t *rapid.T) {
			name := w.podName(rapid.IntRange(0, 2).Draw(t, "index"))
			key := types.NamespacedName{Namespace: model.JobKey.Namespace, Name: name}
			if w.Cluster.Live()[model.Key("Pod", key)] == nil {
				w.create(model.Foreign(model.Pods, name))
			}
		},
		"the other owner frees the names of pods": func(*rapid.T) { w.namesAreFree() },
		"the kubelet restarts a container in its pod": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.fails(pod)
				w.spoil(pod.UID)
				w.happenTo(pod, model.RestartsInPlace(1))
			}
		},
	}
	if !w.scales { // a job that was scaled down has surplus pods, which the controller finds only by their labels
		actions["a user removes a label from a pod"] = func(t *rapid.T) {
			label := rapid.SampledFrom([]string{batchv1beta1.LabelJobKind, batchv1beta1.LabelAttempt}).Draw(t, "label")
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.spoil(pod.UID)
				w.happenTo(pod, model.LosesLabel(label))
			}
		}
	}
	return actions
}

// kueueActions returns the actions of Kueue and the changes to the Workload of the job.
func (w *walk) kueueActions() map[string]func(*rapid.T) {
	withdrawn := func(happens bool) {
		if happens {
			w.withdrawn++
		}
	}
	return map[string]func(*rapid.T){
		"Kueue considers the Workload":        func(*rapid.T) { w.Cluster.ConsiderWorkload(w.closed) },
		"Kueue evicts the job":                func(*rapid.T) { withdrawn(w.Cluster.Evict()) },
		"a user deactivates the Workload":     func(*rapid.T) { withdrawn(w.Cluster.Deactivate()) },
		"a user activates the Workload again": func(*rapid.T) { w.Cluster.Activate() },
		"a user deletes the Workload": func(*rapid.T) {
			if workload := w.Cluster.Live().Workload(); workload != nil {
				withdrawn(true)
				w.remove(workload)
			}
		},
		"the queue closes or opens": func(*rapid.T) { w.closed = !w.closed },
	}
}

// spoil prevents further failures of a pod, because they would not count. An empty UID means no pod.
func (w *walk) spoil(pod types.UID) {
	if pod != "" {
		w.spoiled[pod] = true
	}
}

// namesAreFree deletes the pods with another owner whose names the job needs.
func (w *walk) namesAreFree() {
	for _, object := range w.Cluster.Live().Foreign(model.Pods) {
		w.remove(object)
	}
}
