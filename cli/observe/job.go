package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// maxEvents is the maximum number of events in the snapshot of a job.
const maxEvents = 20

// Job follows a job. It watches the job, its pods and its events, and reads its queue and its TensorBoard at
// intervals.
type Job struct {
	from client.WithWatch
	job  jobs.Job

	changes chan struct{}
	// stale receives a value when the phase or the reason of the job has changed. followSides then reads the queue and
	// the TensorBoard immediately, and does not wait for the end of the interval.
	stale  chan struct{}
	jobs   *collection[framework.Job]
	pods   *collection[namedPod]
	events *collection[screen.Event]

	mu    sync.Mutex
	last  jobs.Job
	gone  bool
	sides sides
}

// namedPod is a pod with its name.
type namedPod struct {
	name string
	pod  screen.Pod
}

// Follow follows a job until the context ends, with the rights of the client.
func Follow(ctx context.Context, from client.WithWatch, job jobs.Job) *Job {
	j := &Job{from: from, job: job, last: job, changes: make(chan struct{}, 1), stale: make(chan struct{}, 1)}
	uid := job.GetUID()
	j.jobs = newCollection(func(o client.Object) (framework.Job, bool) {
		found, ok := o.(framework.Job)
		o.SetManagedFields(nil)
		return found, ok && o.GetUID() == uid
	}, j.notify)
	j.pods = newCollection(func(o client.Object) (namedPod, bool) {
		pod := o.(*corev1.Pod) //nolint:forcetypeassert // a list of pods has pods
		return namedPod{o.GetName(), podOf(pod)}, view.IsControlledBy(o, uid)
	}, j.notify)
	j.events = newCollection(func(o client.Object) (screen.Event, bool) {
		return eventOf(o.(*corev1.Event)), true //nolint:forcetypeassert // a list of events has events
	}, j.notify)
	in := client.ListOptions{Namespace: job.GetNamespace()}
	named, labeled, about := in, in, in
	named.FieldSelector = fields.OneTermEqualSelector("metadata.name", job.GetName())
	labeled.LabelSelector = labels.SelectorFromSet(view.SelectorLabels(job.Kind.Kind, job.GetName()))
	about.FieldSelector = fields.OneTermEqualSelector("involvedObject.uid", string(uid))
	go j.jobs.follow(ctx, from, job.Kind.NewList(), named)
	go j.pods.follow(ctx, from, &corev1.PodList{}, labeled)
	go j.events.follow(ctx, from, &corev1.EventList{}, about)
	go j.followSides(ctx)
	return j
}

// Changes returns a channel that receives a value after changes. One value can stand for several changes.
func (j *Job) Changes() <-chan struct{} { return j.changes }

// notify reports a change.
func (j *Job) notify() { signal(j.changes) }

// signal sends a value to a channel with a buffer of one, unless the buffer is full.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Snapshot returns the latest known state of the job. It returns false until each part of the snapshot has been
// requested once, whether the request succeeded or failed. It returns an error if the user may not watch the job.
func (j *Job) Snapshot() (screen.Snapshot, bool, error) {
	found, isListed, err := j.jobs.read()
	pods, arePodsListed, podsErr := j.pods.read()
	events, areEventsListed, eventsErr := j.events.read()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !isListed && apierrors.IsForbidden(err) {
		return screen.Snapshot{}, true, fmt.Errorf("watching %s needs the permission to list and watch %s: %w",
			j.job.Ref(), j.job.Kind.Resource, err)
	}
	if len(found) > 0 {
		j.last.Job = found[0]
	}
	j.gone = j.gone || isListed && len(found) == 0
	if j.sides.isRead && j.sides.state != stateOf(j.last) {
		signal(j.stale)
	}
	s := screen.Snapshot{
		Job: j.last, Deleted: j.gone, Queue: j.sides.queue, TensorBoard: j.sides.tensorBoard,
		Missing: slices.Clone(j.sides.missing),
	}
	if err != nil && !j.gone {
		s.Trouble = err.Error()
	}
	if podsErr == nil || arePodsListed {
		s.Pods = make(map[string]screen.Pod, len(pods))
		for _, p := range pods {
			s.Pods[p.name] = p.pod
		}
	}
	for what, err := range map[string]error{"pods": podsErr, "events": eventsErr} {
		if apierrors.IsForbidden(err) {
			s.Missing = append(s.Missing, missing(what))
		}
	}
	slices.Sort(s.Missing)
	slices.SortFunc(events, func(a, b screen.Event) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Name, a.Name))
	})
	s.Events = events[:min(len(events), maxEvents)]
	isReady := (isListed || err != nil) && (arePodsListed || podsErr != nil) && (areEventsListed || eventsErr != nil) &&
		j.sides.isRead
	return s, isReady, nil
}

// missing returns a remark about objects that the user may not read.
func missing(what string) string { return what + " (no permission to read them)" }

// podOf returns the part of a pod that a screen shows.
func podOf(pod *corev1.Pod) screen.Pod {
	return screen.Pod{
		Node: pod.Spec.NodeName, Reason: whyNotRunning(pod), Accepted: pod.Status.StartTime,
		Ending: pod.DeletionTimestamp != nil,
	}
}

// whyNotRunning returns a short reason why a pod does not run. It is empty if the pod runs or has succeeded, or if no
// reason is known.
func whyNotRunning(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed {
		return pod.Status.Reason
	}
	reason, _ := jobs.WhyPending(pod)
	return reason
}

// eventOf returns the part of an event that a screen shows.
func eventOf(e *corev1.Event) screen.Event {
	return screen.Event{
		Name: e.Name, Type: e.Type, Reason: e.Reason, Message: report.Truncated(e.Message, report.MaxNote),
		Time: jobs.LastSeen(e),
	}
}

// sides has the queue and the TensorBoard of a job, which followSides reads at intervals.
type sides struct {
	queue       *screen.Queue
	tensorBoard string
	missing     []string
	// isRead reports whether the queue and the TensorBoard have been read. state has the phase and the reason that the
	// job had before this read.
	isRead bool
	state  string
}

// stateOf returns the phase and the reason of a job. If one of them changes, the queue and the TensorBoard are read
// again, because they often change at the same time.
func stateOf(job jobs.Job) string {
	return string(job.JobStatus().Phase) + " " + job.JobStatus().Reason
}

const (
	// sideInterval is the time between two reads of the queue and the TensorBoard of a job.
	sideInterval = 10 * time.Second
	// sideTimeout is the timeout of one read of the queue and the TensorBoard.
	sideTimeout = 10 * time.Second
)

// followSides reads the queue and the TensorBoard of the job at intervals, until the context ends or the job has
// finished.
func (j *Job) followSides(ctx context.Context) {
	ticker := time.NewTicker(sideInterval)
	defer ticker.Stop()
	for {
		j.mu.Lock()
		job := j.last
		j.mu.Unlock()
		reading, cancel := context.WithTimeout(ctx, sideTimeout)
		read := readSides(reading, j.from, job)
		cancel()
		j.mu.Lock()
		j.sides = read
		j.mu.Unlock()
		j.notify()
		if job.JobStatus().Finished() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-j.stale:
		case <-ticker.C:
		}
	}
}
