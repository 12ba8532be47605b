package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// reportingAtRandom returns the shape of a job whose training reports its progress, with a random policy for stalls.
// It returns the shape unchanged if the trainings of the kind do not report their progress.
func reportingAtRandom(t *rapid.T, k model.Kind, s Shape) Shape {
	policies := []batchv1beta1.ProgressPolicy{restartsStalled, restartsStalled, notifiesOfStall}
	reports := reporting(s)
	stalls(rapid.SampledFrom(policies).Draw(t, "policy for stalls"))(&reports.RunPolicy)
	if !k.Runs(reports) {
		return s
	}
	return reports
}

// trainingActions returns the events of the training of the leader and of its sidecar.
func (w *walk) trainingActions() map[string]func(*rapid.T) {
	happens := func(what step, may func(model.Training) bool) func(*rapid.T) {
		return func(*rapid.T) {
			for _, pod := range w.pods() {
				training := w.Cluster.Trainings().Training(pod)
				if pod.Name == w.podName(0) && training != nil && may(*training) {
					what(w.world)
				}
			}
		}
	}
	isReadable := func(t model.Training) bool { return t.Unreadable.IsZero() }
	makesProgress := func(t model.Training) bool { return isReadable(t) && t.Step > 0 && t.Stopped.IsZero() }
	return map[string]func(*rapid.T){
		"the training hangs":               happens(hangs, makesProgress),
		"the training hangs again":         happens(hangs, makesProgress),
		"the training reports a step":      happens(reports, func(t model.Training) bool { return isReadable(t) && !t.Done }),
		"the training announces a silence": happens(announces(5*time.Minute), makesProgress),
		"the training starts again": happens(startsAgain, func(t model.Training) bool {
			return isReadable(t) && t.Step > 0
		}),
		"the training is done":           happens(completes, makesProgress),
		"the training cannot be read":    happens(unreadable, isReadable),
		"the training can be read again": func(*rapid.T) { w.trainingsAreReadable() },
		"the training hangs at its start": func(*rapid.T) {
			for _, pod := range w.pods() {
				if pod.Name == w.podName(0) && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
					w.happenTo(pod, model.RunsAndHangs)
				}
			}
		},
		"a minute passes": func(*rapid.T) { w.Clock.SetTime(w.Clock.Now().Add(time.Minute)) },
	}
}

// trainingsAreReadable makes the sidecars of all trainings readable.
func (w *walk) trainingsAreReadable() {
	for _, pod := range w.pods() {
		w.happenTo(pod, model.IsReadable)
	}
}
