package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/common/plan"
)

// Memory is all that a Reconciler remembers from one reconcile to the next: since when each job's status has something to say that can
// wait, so that it says all of that at once, and what it last did about the job's TensorBoard, to space out what is refused. What ends
// with the process costs one late write a job.
type Memory struct {
	times        sync.Map // types.NamespacedName -> time.Time
	tensorBoards sync.Map // types.NamespacedName -> plan.HeldChange
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

// heldTensorBoard returns which change of a job's TensorBoard must wait, the zero value for none.
func (m *Memory) heldTensorBoard(job types.NamespacedName) plan.HeldChange {
	if held, ok := m.tensorBoards.Load(job); ok {
		return held.(plan.HeldChange) //nolint:forcetypeassert // only holdTensorBoard stores
	}
	return plan.HeldChange{}
}

// holdTensorBoard says which change of a job's TensorBoard must wait.
func (m *Memory) holdTensorBoard(job types.NamespacedName, held plan.HeldChange) {
	m.tensorBoards.Store(job, held)
}

// forget drops all that is remembered of a job.
func (m *Memory) forget(job types.NamespacedName) {
	m.times.Delete(job)
	m.tensorBoards.Delete(job)
}
