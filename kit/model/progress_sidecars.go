package model

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
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

// readings returns the readings of the sidecars and supervisors of the given pods. They answer only at their current
// addresses and to their current tokens.
func (s Snapshot) readings(pods []progress.Pod, now time.Time) []progress.Reading {
	var readings []progress.Reading
	for _, live := range ListOf[*corev1.Pod](s.Objects) {
		training := s.Trainings.Training(live)
		if training == nil {
			continue
		}
		at := func(port, token string) progress.Target {
			return progress.Target{Address: live.Status.PodIP + ":" + live.Annotations[port], Token: token}
		}
		sidecar := at(batchv1beta1.AnnotationProgressPort, live.Annotations[batchv1beta1.AnnotationProgressToken])
		if slices.Contains(pods, progress.Pod{UID: live.UID, Target: sidecar}) {
			readings = append(readings, training.reading(live.UID, now))
		}
		attempt := framework.AttemptID(metav1.GetControllerOf(live).UID, view.JobAttemptOf(live))
		supervisor := at(batchv1beta1.AnnotationSupervisorPort, attempt)
		if slices.ContainsFunc(pods, func(p progress.Pod) bool {
			p.HasEnded = false // a supervisor that has ended has its last reading
			return p == progress.Pod{UID: live.UID, OfSupervisor: true, Target: supervisor}
		}) {
			readings = append(readings, training.counted(live.UID, now))
		}
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

// counted returns the controller's reading of the supervisor at the given time.
func (t Training) counted(pod types.UID, now time.Time) progress.Reading {
	read := progress.Reading{UID: pod, OfSupervisor: true, Time: now}
	if !t.Unreadable.IsZero() {
		read.Time, read.Err = t.Unreadable, errUnreadable
	}
	if t.Forgotten {
		read.Time = time.Time{}
		return read
	}
	read.State.Restarts.Count = t.Restarts
	read.State.Restarts.Last = make([]progress.Restart, min(t.Restarts, batchv1beta1.KeptRestartsInPlace))
	return read
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
