package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/dependents"
)

// Memory is all that a Reconciler remembers from one reconcile to the next: since when a change of each job's status
// waits to be written, so that it is written together with later ones; what was last done about the job's TensorBoard,
// so that a change that is refused is not tried all the time; which pods of the job were written, so that the cache
// gets the time to show them; which pods left the cache while they were held; whether the job has a Service that the
// cache never shows, since somebody changed its labels; and until when no pods of the job are created, since admission
// changed the last one. If the process ends, that costs one late write a job.
type Memory struct {
	times        sync.Map // types.NamespacedName -> time.Time
	services     sync.Map // types.NamespacedName -> types.UID of the job
	held         sync.Map // types.NamespacedName -> time.Time
	tensorBoards dependents.HeldChanges

	written, left podNames
}

// WaitsSince returns since when the status of a job waits to be written, the zero time if it does not.
func (m *Memory) WaitsSince(job types.NamespacedName) time.Time {
	if since, ok := m.times.Load(job); ok {
		return since.(time.Time) //nolint:forcetypeassert // only SetWaitsSince stores
	}
	return time.Time{}
}

// SetWaitsSince sets since when the status of a job waits to be written. The zero time means that it does not wait.
func (m *Memory) SetWaitsSince(job types.NamespacedName, since time.Time) {
	if since.IsZero() {
		m.times.Delete(job)
		return
	}
	m.times.Store(job, since)
}

// HeldUntil returns until when no pods of a job are created, the zero time if they may be.
func (m *Memory) HeldUntil(job types.NamespacedName) time.Time {
	if until, ok := m.held.Load(job); ok {
		return until.(time.Time) //nolint:forcetypeassert // only HoldUntil stores
	}
	return time.Time{}
}

// HoldUntil sets until when no pods of a job are created. The zero time means that they may be.
func (m *Memory) HoldUntil(job types.NamespacedName, until time.Time) {
	if until.IsZero() {
		m.held.Delete(job)
		return
	}
	m.held.Store(job, until)
}

// noteService remembers that the job has its Service, under other labels. They do not matter to the Service.
func (m *Memory) noteService(job client.Object) {
	m.services.Store(client.ObjectKeyFromObject(job), job.GetUID())
}

// hasService reports whether the job has its Service: the cache does, or it was seen under other labels.
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

// noteLeft remembers that a pod of the job left the cache while it was held.
func (m *Memory) noteLeft(job types.NamespacedName, pod string) { m.left.add(job, pod) }

// takeLeft returns the names of the pods of the job that left the cache while they were held, since the last call.
func (m *Memory) takeLeft(job types.NamespacedName) []string { return m.left.take(job) }

// podNames are names of pods, by their job.
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

// forget drops all that is remembered of a job.
func (m *Memory) forget(job types.NamespacedName) {
	m.times.Delete(job)
	m.services.Delete(job)
	m.held.Delete(job)
	m.tensorBoards.Forget(job)
	m.TakeWrites(job)
}
