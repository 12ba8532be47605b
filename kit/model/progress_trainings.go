package model

import (
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// Training is the state of the training in a pod, as the sidecar or the supervisor of the pod knows it. Only pods that
// the controller can read have a Training.
//
// A training that makes progress reports steps all the time. The model leaves these reports out, because otherwise
// the status would change forever and no job would come to rest. The model has only the first report, and the reports
// that an event such as Reports or Completes makes.
type Training struct {
	// Step is the last reported step. 0 means that nothing was reported.
	Step int64
	// Reported is the time of the last report in the model.
	Reported time.Time
	// Stopped is when the training stopped making progress. Zero means that it makes progress, or has reported nothing.
	Stopped time.Time
	// SilentUntil is the end of the silence that the training announced. Zero means none.
	SilentUntil time.Time
	// Started is when the processes of the training started again. Zero means that they have not started again since the
	// last step.
	Started time.Time
	// Done reports whether the training has reported 100 percent.
	Done bool
	// Restarts is the number of restarts in place that the pod has counted.
	Restarts int32
	// Unreadable is the time since which the sidecar cannot be read. Zero means that it can be read. While the sidecar
	// cannot be read, no event happens to the training.
	Unreadable time.Time
	// Forgotten is set if the pod cannot be read and the controller has restarted since then, so that it has no reading.
	Forgotten bool
}

// progress returns the time at which the training last made progress. Zero means that the training has reported
// nothing.
func (t Training) progress(now time.Time) time.Time {
	switch {
	case t.Step == 0:
		return time.Time{}
	case t.Stopped.IsZero():
		return now
	default:
		return t.Stopped
	}
}

// Trainings are the trainings of pods by UID. The map never changes: a changed copy replaces it.
type Trainings map[types.UID]Training

// Training returns the training of a pod, or nil if there is none.
func (t Trainings) Training(pod *corev1.Pod) *Training {
	if training, ok := t[pod.UID]; ok {
		return &training
	}
	return nil
}

// Trainings returns the current trainings of the pods that can report their progress.
func (c *Cluster) Trainings() Trainings { return c.trainings }

// ForgetReadings makes the controller forget its readings, as it does when its process ends. It can read most pods
// again.
func (c *Cluster) ForgetReadings() {
	for _, pod := range c.Live().Pods() {
		if training := c.trainings.Training(pod); training != nil &&
			(!training.Unreadable.IsZero() || pod.DeletionTimestamp != nil || policy.Ended(pod)) {
			training.Forgotten = true
			c.train(pod.UID, *training)
		}
	}
}

// CanReport reports whether the training of a pod can report its progress.
func CanReport(pod *corev1.Pod) bool {
	return pod.Annotations[batchv1beta1.AnnotationProgressToken] != ""
}

// counts reports whether the pod counts restarts in place.
func counts(pod *corev1.Pod) bool {
	return pod.Annotations[batchv1beta1.AnnotationSupervisorPort] != ""
}

// follow starts and ends the training of a pod whose status changes. If the training of the leader reports its
// progress, it reports the first step when its containers start. The other trainings report nothing. When the sidecar
// ends, its last state becomes the termination message of its container.
func (c *Cluster) follow(pod *corev1.Pod) {
	if !CanReport(pod) && !counts(pod) {
		return
	}
	training, isTraining := c.trainings[pod.UID]
	if pod.Status.Phase == corev1.PodRunning && !isTraining {
		pod.Status.PodIP = "10.0.0.1" + pod.Labels[batchv1beta1.LabelReplicaIndex]
		if CanReport(pod) && pod.Labels[batchv1beta1.LabelReplicaIndex] == "0" {
			training = Training{Step: 1, Reported: c.clock.Now()}
		}
		c.train(pod.UID, training)
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if s.Name != framework.ProgressContainer || s.State.Terminated == nil || !isTraining {
			continue
		}
		message, err := json.Marshal(training.stateAt(c.clock.Now()))
		if err != nil {
			panic(err) // a State can always be encoded
		}
		s.State.Terminated.Message = string(message)
		c.endTraining(pod.UID)
	}
}

func (c *Cluster) train(pod types.UID, training Training) {
	c.trainings = maps.Clone(c.trainings)
	if c.trainings == nil {
		c.trainings = Trainings{}
	}
	c.trainings[pod] = training
}

func (c *Cluster) endTraining(pod types.UID) {
	if _, ok := c.trainings[pod]; ok {
		c.trainings = maps.Clone(c.trainings)
		delete(c.trainings, pod)
	}
}

// trains returns a mishap that changes the training of a pod. The mishap changes no object.
func trains(how func(*Training, time.Time)) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		training, ok := c.trainings[pod.UID]
		if ok {
			how(&training, c.clock.Now())
			c.train(pod.UID, training)
		}
		return nil
	}
}

// Events of the training of a pod that can report its progress.
var (
	// Reports makes the training report another step.
	Reports = trains(func(t *Training, now time.Time) {
		*t = Training{Step: t.Step + 1, Reported: now, Restarts: t.Restarts}
	})
	// Hangs makes the training stop making progress. Its containers still run.
	Hangs = trains(func(t *Training, now time.Time) { t.Stopped = now })
	// StartsAgain makes the processes of the training start again in the pod.
	StartsAgain = trains(func(t *Training, now time.Time) {
		t.Started = now
		if t.Stopped.IsZero() {
			t.Stopped = now
		}
	})
	// CountsRestart makes the launcher start the processes of all replicas again, and the pod count this restart in
	// place.
	CountsRestart = trains(func(t *Training, _ time.Time) { t.Restarts++ })
	// RunsAndHangs binds the pod to a node and starts its containers, but its training reports nothing.
	RunsAndHangs = Runs.then(trains(func(t *Training, _ time.Time) { *t = Training{} }))
	// Completes makes the training report 100 percent.
	Completes = trains(func(t *Training, now time.Time) {
		*t = Training{Step: t.Step + 1, Reported: now, Stopped: now, Done: true, Restarts: t.Restarts}
	})
	// IsUnreadable makes the sidecar of the training unreadable.
	IsUnreadable = trains(func(t *Training, now time.Time) { t.Unreadable = now })
	// IsReadable makes the sidecar of the training readable again.
	IsReadable = trains(func(t *Training, _ time.Time) { t.Unreadable, t.Forgotten = time.Time{}, false })
)

// Announces makes the training announce that it reports no step for a while.
func Announces(silence time.Duration) Mishap {
	return trains(func(t *Training, now time.Time) {
		t.Reported, t.Stopped, t.SilentUntil = now, now, now.Add(silence)
	})
}
