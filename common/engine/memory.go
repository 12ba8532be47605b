package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is all that a Reconciler remembers from one reconcile to the next: when it last wrote each job's status, to space out
// the writes that only follow replicas, and when it may next change the job's TensorBoard, to space out what is refused. What ends
// with the process costs one early write a job.
type Memory struct {
	times        sync.Map // types.NamespacedName -> time.Time
	tensorBoards sync.Map // types.NamespacedName -> time.Time
}

// Written returns when the status of a job was last written, the zero time if that is not known.
func (m *Memory) Written(job types.NamespacedName) time.Time { return load(&m.times, job) }

// SetWritten says when the status of a job was last written; the zero time forgets it.
func (m *Memory) SetWritten(job types.NamespacedName, at time.Time) { store(&m.times, job, at) }

// forget drops all that is remembered of a job.
func (m *Memory) forget(job types.NamespacedName) {
	m.times.Delete(job)
	m.tensorBoards.Delete(job)
}

func load(times *sync.Map, job types.NamespacedName) time.Time {
	if at, ok := times.Load(job); ok {
		return at.(time.Time) //nolint:forcetypeassert // only store stores
	}
	return time.Time{}
}

func store(times *sync.Map, job types.NamespacedName, at time.Time) {
	if at.IsZero() {
		times.Delete(job)
		return
	}
	times.Store(job, at)
}
