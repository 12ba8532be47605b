package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/quota"
)

// Memory is everything that a Reconciler remembers between two reconciles. If the process ends, the loss of its Memory
// costs one late write per job.
type Memory struct {
	// times holds when the oldest unwritten status change of a job was seen: types.NamespacedName -> time.Time.
	times sync.Map
	// services holds the jobs whose Service is never in the cache, because its labels were changed:
	// types.NamespacedName -> types.UID of the job.
	services sync.Map
	// held holds the time before which no pods of a job are created, because admission changed the last one:
	// types.NamespacedName -> time.Time.
	held sync.Map
	// tensorBoards are the last changes of TensorBoards, so that a rejected change is not retried all the time.
	tensorBoards dependents.HeldChanges
	// words are the words of Kueue that jobs show.
	words dependents.Words
	// progress determines when statuses are written that report only progress.
	progress progressBudget
	// waiting are the jobs that wait for ResourceQuotas. After a restart, the first job that asks goes first.
	waiting quota.Line
	// written are the pods that the cache must catch up with.
	written podNames
	// left are the pods that left the cache while they were held.
	left podNames
}

// WaitsSince returns since when the status of a job has been waiting to be written. Zero means that no write is due.
func (m *Memory) WaitsSince(job types.NamespacedName) time.Time {
	if since, ok := m.times.Load(job); ok {
		return since.(time.Time) //nolint:forcetypeassert // only SetWaitsSince stores
	}
	return time.Time{}
}

// SetWaitsSince sets since when the status of a job has been waiting to be written. Zero means that no write is due.
func (m *Memory) SetWaitsSince(job types.NamespacedName, since time.Time) {
	if since.IsZero() {
		m.times.Delete(job)
		return
	}
	m.times.Store(job, since)
}

// HeldUntil returns the time before which no pods of a job are created. Zero means no delay.
func (m *Memory) HeldUntil(job types.NamespacedName) time.Time {
	if until, ok := m.held.Load(job); ok {
		return until.(time.Time) //nolint:forcetypeassert // only HoldUntil stores
	}
	return time.Time{}
}

// HoldUntil sets the time before which no pods of a job are created. Zero means no delay.
func (m *Memory) HoldUntil(job types.NamespacedName, until time.Time) {
	if until.IsZero() {
		m.held.Delete(job)
		return
	}
	m.held.Store(job, until)
}

// noteService remembers that the job has its Service, although the labels of the Service were changed. The Service
// works without these labels.
func (m *Memory) noteService(job client.Object) {
	m.services.Store(client.ObjectKeyFromObject(job), job.GetUID())
}

// hasService reports whether the job has its Service. The Service is in the cache, or it was seen with other labels.
func (m *Memory) hasService(job client.Object, cached bool) bool {
	key := client.ObjectKeyFromObject(job)
	if cached {
		m.services.Delete(key)
		return true
	}
	uid, ok := m.services.Load(key)
	return ok && uid == job.GetUID()
}

// noteWrite remembers that a pod of the job was created or deleted.
func (m *Memory) noteWrite(job types.NamespacedName, pod string) { m.written.add(job, pod) }

// TakeWrites returns the names of the pods of the job that were created or deleted since the last call.
func (m *Memory) TakeWrites(job types.NamespacedName) []string { return m.written.take(job) }

// noteLeft remembers that a held pod of the job left the cache.
func (m *Memory) noteLeft(job types.NamespacedName, pod string) { m.left.add(job, pod) }

// takeLeft returns the names of the held pods of the job that left the cache since the last call.
func (m *Memory) takeLeft(job types.NamespacedName) []string { return m.left.take(job) }

// podNames holds names of pods by job.
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

// forget drops everything about a job.
func (m *Memory) forget(job types.NamespacedName) {
	m.times.Delete(job)
	m.services.Delete(job)
	m.held.Delete(job)
	m.waiting.Leave(job)
	m.tensorBoards.Forget(job)
	m.ForgetWords(job)
	m.progress.forget(job)
	m.TakeWrites(job)
}

// ProgressWritten returns when the status of a job was last written with another progress. Zero means never.
func (m *Memory) ProgressWritten(job types.NamespacedName) time.Time { return m.progress.written(job) }

// SetProgressWritten sets when the status of a job was last written with another progress. Zero means never. It forgets
// the writes of all other jobs.
func (m *Memory) SetProgressWritten(job types.NamespacedName, at time.Time) {
	m.progress.restart(job, at)
}

// ForgetWords forgets the words of Kueue that a job shows, so that it shows the newest ones next.
func (m *Memory) ForgetWords(job types.NamespacedName) { m.words.Forget(job) }
