package controller

import (
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/progress"
)

// Progress reads the progress of pods in the background.
type Progress interface {
	// Follow sets which pods of a job are read from now on, and returns the last readings of these pods. It does not
	// wait for any pod.
	Follow(job types.NamespacedName, pods []progress.Pod) []progress.Reading
	// Forget ends the readings of a job.
	Forget(job types.NamespacedName)
}

// noProgress reads nothing.
type noProgress struct{}

// Follow implements Progress.
func (noProgress) Follow(types.NamespacedName, []progress.Pod) []progress.Reading { return nil }

// Forget implements Progress.
func (noProgress) Forget(types.NamespacedName) {}

// progressEvents is how many events about progress can wait. Further events are dropped: these jobs are reconciled
// after plan.ProgressInterval.
const progressEvents = 1024

// ProgressChanged enqueues a job whose progress was read for the first time. It does not block.
func (r *Reconciler[J]) ProgressChanged(job types.NamespacedName) {
	object := r.framework.NewJob()
	object.SetNamespace(job.Namespace)
	object.SetName(job.Name)
	select {
	case r.progressed <- ctrlevent.GenericEvent{Object: object}:
	default:
	}
}

// observeProgress adds the progress of the training to an observation. A job that reports none costs nothing.
func (r *Reconciler[J]) observeProgress(
	job client.Object, planned *view.Job, seen *view.Observation, now time.Time,
) {
	key := client.ObjectKeyFromObject(job)
	if !planned.Spec.ReportsProgress || !planned.Spec.RunsHere() || planned.Deleting || planned.Status.Finished() {
		r.forgetProgress(key) // an earlier job of the name might have reported
		return
	}
	seen.Readings = r.readings(key, seen.Pods)
	seen.ProgressDue = r.options.Memory.progress.due(key, now, view.HasNews(planned.Status, seen.Readings))
}

// forgetProgress drops everything about the progress of a job.
func (r *Reconciler[J]) forgetProgress(job types.NamespacedName) {
	r.progress.Forget(job)
	r.options.Memory.progress.forget(job)
}

// readings returns the last readings of the progress of the pods of a job. The last report of a sidecar that has ended
// is in the status of its pod. The others are read in the background.
func (r *Reconciler[J]) readings(
	job types.NamespacedName, pods map[string]*corev1.Pod,
) map[types.UID]view.Reading {
	readings := map[types.UID]view.Reading{}
	var followed []progress.Pod
	names := map[types.UID]string{}
	for name, pod := range pods {
		token := pod.Annotations[batchv1beta1.AnnotationProgressToken]
		if token == "" {
			continue
		}
		names[pod.UID] = name
		if last := lastReport(pod); last != nil {
			final := readingOf(*last, name)
			final.IsFinal = true
			readings[pod.UID] = final
			continue
		}
		if pod.Status.PodIP != "" && pod.DeletionTimestamp == nil && !policy.Ended(pod) {
			port := pod.Annotations[batchv1beta1.AnnotationProgressPort]
			followed = append(followed, progress.Pod{UID: pod.UID, Target: progress.Target{
				Address: net.JoinHostPort(pod.Status.PodIP, port), Token: token,
			}})
		}
	}
	for _, read := range r.progress.Follow(job, followed) {
		readings[read.UID] = readingOf(read, names[read.UID])
	}
	return readings
}

func readingOf(read progress.Reading, replica string) view.Reading {
	reading := view.Reading{
		Time: read.Time, Status: read.State.Status(read.Time, replica),
		Silence: read.State.SinceProgress, Announced: read.State.AnnouncedSilence,
	}
	if read.State.SinceStart != nil {
		reading.Started = read.Time.Add(-*read.State.SinceStart)
	}
	if read.Err != nil {
		reading.Problem = read.Err.Error()
	}
	return reading
}

// lastReport returns the state with which the sidecar of a pod ended, or nil if the sidecar has not ended.
func lastReport(pod *corev1.Pod) *progress.Reading {
	statuses := pod.Status.InitContainerStatuses
	i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == framework.ProgressContainer })
	if i < 0 || statuses[i].State.Terminated == nil {
		return nil
	}
	ended := statuses[i].State.Terminated
	state, err := progress.ParseState([]byte(ended.Message))
	if err != nil || ended.FinishedAt.IsZero() {
		return nil
	}
	return &progress.Reading{UID: pod.UID, Time: ended.FinishedAt.Time, State: state}
}
