package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is all that a Reconciler remembers from one reconcile to the next: when it last wrote each job's status, to space out
// the writes that only follow replicas, and what it last did about the job's TensorBoard, to space out what is refused. What ends
// with the process costs one early write a job.
type Memory struct {
	times        sync.Map // types.NamespacedName -> time.Time
	tensorBoards sync.Map // types.NamespacedName -> heldChange
}

// Written returns when the status of a job was last written, the zero time if that is not known.
func (m *Memory) Written(job types.NamespacedName) time.Time {
	if written, ok := m.times.Load(job); ok {
		return written.(time.Time) //nolint:forcetypeassert // only SetWritten stores
	}
	return time.Time{}
}

// SetWritten says when the status of a job was last written; the zero time forgets it.
func (m *Memory) SetWritten(job types.NamespacedName, at time.Time) {
	if at.IsZero() {
		m.times.Delete(job)
		return
	}
	m.times.Store(job, at)
}

// heldTensorBoard returns which change of a job's TensorBoard must wait, the zero value for none.
func (m *Memory) heldTensorBoard(job types.NamespacedName) heldChange {
	if held, ok := m.tensorBoards.Load(job); ok {
		return held.(heldChange) //nolint:forcetypeassert // only holdTensorBoard stores
	}
	return heldChange{}
}

// holdTensorBoard says which change of a job's TensorBoard must wait.
func (m *Memory) holdTensorBoard(job types.NamespacedName, held heldChange) {
	m.tensorBoards.Store(job, held)
}

// forget drops all that is remembered of a job.
func (m *Memory) forget(job types.NamespacedName) {
	m.times.Delete(job)
	m.tensorBoards.Delete(job)
}
