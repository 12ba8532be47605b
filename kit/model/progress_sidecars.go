package model

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/progress"
)

// SidecarServer answers when a controller reads the sidecars of pods. It decides which state of the cluster a read
// gets.
type SidecarServer interface {
	ReadSidecars(call Call, from func(Snapshot, time.Time) Answer) Answer
}

// NewProgress returns the part of a controller that reads the sidecars of pods.
func NewProgress(server SidecarServer) controller.Progress { return sidecars{server} }

type sidecars struct{ server SidecarServer }

// Follow implements controller.Progress. It reads each sidecar immediately.
func (s sidecars) Follow(_ types.NamespacedName, pods []progress.Pod) []progress.Reading {
	if len(pods) == 0 {
		return nil
	}
	var uids []string
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
	}
	slices.Sort(uids)
	call := Call{Verb: "read the progress of", Key: strings.Join(uids, " ")}
	return s.server.ReadSidecars(call, func(from Snapshot, now time.Time) Answer {
		return Answer{Readings: from.readings(pods, now)}
	}).Readings
}

// Forget implements controller.Progress.
func (sidecars) Forget(types.NamespacedName) {}

// readings returns the readings of the sidecars of the given pods. A sidecar answers only at its current address and
// to its current token.
func (s Snapshot) readings(pods []progress.Pod, now time.Time) []progress.Reading {
	var readings []progress.Reading
	for _, live := range ListOf[*corev1.Pod](s.Objects) {
		address := live.Status.PodIP + ":" + live.Annotations[batchv1beta1.AnnotationProgressPort]
		target := progress.Target{Address: address, Token: live.Annotations[batchv1beta1.AnnotationProgressToken]}
		training := s.Trainings.Training(live)
		if training == nil || !slices.Contains(pods, progress.Pod{UID: live.UID, Target: target}) {
			continue
		}
		readings = append(readings, training.reading(live.UID, now))
	}
	return readings
}

// errUnreadable is the error in a reading if the sidecar cannot be read.
var errUnreadable = errors.New("the sidecar cannot be read")

// reading returns the controller's reading of the sidecar at the given time. If the sidecar cannot be read, the
// reading has an error. It then also has the last state of the sidecar, unless the controller has forgotten this
// state.
func (t Training) reading(pod types.UID, now time.Time) progress.Reading {
	switch {
	case t.Forgotten:
		return progress.Reading{UID: pod, Err: errUnreadable}
	case !t.Unreadable.IsZero():
		return progress.Reading{UID: pod, Time: t.Unreadable, State: t.stateAt(t.Unreadable), Err: errUnreadable}
	default:
		return progress.Reading{UID: pod, Time: now, State: t.stateAt(now)}
	}
}

// stateAt returns the state of the sidecar at a time.
func (t Training) stateAt(now time.Time) progress.State {
	if t.Step == 0 {
		return progress.State{}
	}
	state := progress.State{
		Reports: t.Step, Step: new(t.Step), SinceReport: now.Sub(t.Reported),
		AnnouncedSilence: max(0, t.SilentUntil.Sub(now)),
	}
	if !t.Started.IsZero() {
		state.SinceStart = new(now.Sub(t.Started))
	}
	if t.Done {
		state.Percent = new(int32(100))
	}
	if !t.Stopped.IsZero() {
		state.SinceProgress = now.Sub(t.Stopped)
	}
	return state
}
