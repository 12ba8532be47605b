package controller

import (
	"net"
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
	// Forget stops reading the pods of a job.
	Forget(job types.NamespacedName)
}

// noProgress is a Progress without any readings.
type noProgress struct{}

// Follow implements Progress.
func (noProgress) Follow(types.NamespacedName, []progress.Pod) []progress.Reading { return nil }

// Forget implements Progress.
func (noProgress) Forget(types.NamespacedName) {}

// progressEvents is the maximum number of events about progress that wait to be handled. Further events are dropped.
// A job whose event was dropped is reconciled after view.ProgressInterval.
const progressEvents = 1024

// ProgressChanged enqueues a job. A progress.Poller calls it when a pod can be read for the first time, cannot be read
// anymore, or can be read again, after the first report, and after restarts in place. ProgressChanged does not block.
func (r *Reconciler[J]) ProgressChanged(job types.NamespacedName) {
	object := r.framework.NewJob()
	object.SetNamespace(job.Namespace)
	object.SetName(job.Name)
	select {
	case r.progressed <- ctrlevent.GenericEvent{Object: object}:
	default:
	}
}

// observeReadings adds the progress of the training and the restarts in place to an observation. If the controller
// follows no pods of the job, observeReadings forgets their readings instead.
func (r *Reconciler[J]) observeReadings(
	job client.Object, planned *view.Job, seen *view.Observation, now time.Time,
) {
	key := client.ObjectKeyFromObject(job)
	if !planned.IsFollowed() {
		r.forgetProgress(key) // an earlier job of the same name might have reported
		return
	}
	seen.Readings = r.readings(key, planned.UID, seen.Pods)
	seen.ProgressDue = r.options.Memory.progress.due(key, now, view.HasNews(planned.Status, seen.Readings))
}

// forgetProgress drops everything about the progress of a job.
func (r *Reconciler[J]) forgetProgress(job types.NamespacedName) {
	r.cluster.Progress.Forget(job)
	r.options.Memory.progress.jobs.Forget(job)
}

// readings maps the UIDs of pods of a job to their last readings. If the sidecar of a pod has ended, the last reading
// of its progress is from the status of the pod. The other readings are from the background reads.
func (r *Reconciler[J]) readings(
	job types.NamespacedName, uid types.UID, pods map[string]*corev1.Pod,
) map[types.UID]view.Reading {
	readings := map[types.UID]view.Reading{}
	var followed []progress.Pod
	names := map[types.UID]string{}
	for name, pod := range pods {
		names[pod.UID] = name
		canBeRead := pod.Status.PodIP != "" && pod.DeletionTimestamp == nil && !policy.Ended(pod)
		token := pod.Annotations[batchv1beta1.AnnotationProgressToken]
		switch last := lastReport(pod); {
		case token == "":
		case last != nil:
			final := readingOf(*last, name)
			final.IsFinal = true
			readings[pod.UID] = final
		case canBeRead:
			port := pod.Annotations[batchv1beta1.AnnotationProgressPort]
			followed = append(followed, progress.Pod{UID: pod.UID, Target: progress.Target{
				Address: net.JoinHostPort(pod.Status.PodIP, port), Token: token,
			}})
		}
		if port := pod.Annotations[batchv1beta1.AnnotationSupervisorPort]; port != "" && pod.Status.PodIP != "" {
			followed = append(followed, progress.Pod{
				UID: pod.UID, OfSupervisor: true, HasEnded: !canBeRead, Target: progress.Target{
					Address: net.JoinHostPort(pod.Status.PodIP, port), Token: framework.AttemptID(uid, view.JobAttemptOf(pod)),
				},
			})
		}
	}
	for _, read := range r.cluster.Progress.Follow(job, followed) {
		if !read.OfSupervisor {
			readings[read.UID] = readingOf(read, names[read.UID])
			continue
		}
		reading := readings[read.UID] // the progress of a pod comes before its restarts
		reading.Restarts, reading.LastRestarts = read.State.Restarts.Count, read.State.Restarts.Status(read.Time)
		readings[read.UID] = reading
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

// lastReport returns the reading that the sidecar of a pod wrote into its termination message. It returns nil if the
// sidecar has not ended, if the message is unreadable, or if the time when the sidecar ended is unknown.
func lastReport(pod *corev1.Pod) *progress.Reading {
	status := policy.ContainerStatus(pod.Status.InitContainerStatuses, framework.ProgressContainer)
	if status == nil || status.State.Terminated == nil {
		return nil
	}
	ended := status.State.Terminated
	state, err := progress.ParseState([]byte(ended.Message))
	if err != nil || ended.FinishedAt.IsZero() {
		return nil
	}
	return &progress.Reading{UID: pod.UID, Time: ended.FinishedAt.Time, State: state}
}
