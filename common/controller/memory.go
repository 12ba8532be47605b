package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/quota"
)

// Memory is everything that a Reconciler remembers between two reconciles. It is not stored: when the process ends,
// it is lost.
type Memory struct {
	// times has the time of the oldest status change of each job that is not written yet.
	times dependents.PerJob[time.Time]
	// services has the UIDs of the jobs whose Service is never in the cache, because somebody changed the labels of the
	// Service.
	services dependents.PerJob[types.UID]
	// held has the time before which no pods of a job are created, because an admission webhook or policy changed the
	// labels of a pod.
	held dependents.PerJob[time.Time]
	// tensorBoards are the last changes of TensorBoards, so that a rejected change is retried only after a delay.
	tensorBoards dependents.DelayedChanges
	// words are the messages of Kueue that the statuses of jobs show.
	words dependents.Words
	// progress determines when the status of a job is written if only its progress has changed.
	progress progressBudget
	// waiting is the line of the jobs that wait for ResourceQuotas. A restart of the controller empties the line. A job
	// can then get ahead of an older job that has not been reconciled yet.
	waiting quota.Line
	// written are the pods that the controller created, released or deleted. The next reconcile of the job waits until
	// the cache shows these changes.
	written podNames
	// left are the pods that left the cache while they had FinalizerLeader.
	left podNames
}

// WaitsSince returns the time since which a status change of a job has been waiting to be written. Zero means that no
// change waits.
func (m *Memory) WaitsSince(job types.NamespacedName) time.Time { return m.times.Of(job) }

// SetWaitsSince sets the time since which a status change of a job has been waiting to be written. Zero means that no
// change waits.
func (m *Memory) SetWaitsSince(job types.NamespacedName, since time.Time) { m.times.Set(job, since) }

// DelayedUntil returns the time before which no pods of a job are created. Zero means no delay.
func (m *Memory) DelayedUntil(job types.NamespacedName) time.Time { return m.held.Of(job) }

// DelayUntil sets the time before which no pods of a job are created. Zero means no delay.
func (m *Memory) DelayUntil(job types.NamespacedName, until time.Time) { m.held.Set(job, until) }

// noteService remembers that the job has its Service, although the cache lacks the Service because somebody changed
// its labels. The Service works without these labels.
func (m *Memory) noteService(job client.Object) {
	m.services.Set(client.ObjectKeyFromObject(job), job.GetUID())
}

// hasService reports whether the job has its Service. The job has the Service if the cache contains it, or if
// noteService was called for this job. The parameter cached reports whether the cache contains the Service.
func (m *Memory) hasService(job client.Object, cached bool) bool {
	key := client.ObjectKeyFromObject(job)
	if cached {
		m.services.Forget(key)
		return true
	}
	uid := m.services.Of(key)
	return uid != "" && uid == job.GetUID()
}

// TakeWrites returns the names of the pods of the job that were created, released or deleted since the last call.
func (m *Memory) TakeWrites(job types.NamespacedName) []string { return m.written.take(job) }

// podNames maps jobs to names of their pods.
type podNames struct {
	mu    sync.Mutex
	ofJob map[types.NamespacedName][]string
}

func (n *podNames) add(job types.NamespacedName, pod string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ofJob == nil {
		n.ofJob = map[types.NamespacedName][]string{}
	}
	n.ofJob[job] = append(n.ofJob[job], pod)
}

// take returns the names of the pods of a job that were added since the last call.
func (n *podNames) take(job types.NamespacedName) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := n.ofJob[job]
	delete(n.ofJob, job)
	return pods
}

// forget drops everything about a job, except the names of its held pods that left the cache, because releaseStrays
// still needs these names.
func (m *Memory) forget(job types.NamespacedName) {
	m.times.Forget(job)
	m.services.Forget(job)
	m.held.Forget(job)
	m.waiting.Leave(job)
	m.tensorBoards.Forget(job)
	m.ForgetWords(job)
	m.progress.jobs.Forget(job)
	m.TakeWrites(job)
}

// ProgressWritten returns when a status write last changed the progress of a job. Zero means never.
func (m *Memory) ProgressWritten(job types.NamespacedName) time.Time {
	return ptr.Deref(m.progress.jobs.Of(job), progressWrites{}).last
}

// SetProgressWritten sets when a status write last changed the progress of a job. Zero means never.
// SetProgressWritten forgets the writes for all other jobs.
func (m *Memory) SetProgressWritten(job types.NamespacedName, at time.Time) {
	m.progress = progressBudget{}
	m.progress.jobs.Set(job, &progressWrites{last: at})
}

// ForgetWords forgets the message of Kueue in the status of a job, so that the next status has the newest message.
func (m *Memory) ForgetWords(job types.NamespacedName) { m.words.Forget(job) }
