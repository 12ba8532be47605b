package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/plan/view"
)

// progressWritesPerSecond limits the rate of status writes that change only the progress, for all jobs together. The
// rate can be higher for a short time when more namespaces begin to wait. A write takes the API server about 8 ms.
const progressWritesPerSecond = 25

// progressBudget determines when the status of a job is written if only its progress has changed. It spreads these
// writes over time, and shares them among the namespaces. The zero value is ready to use. Several goroutines can use it
// at the same time, but not for the same job.
type progressBudget struct {
	jobs dependents.PerJob[*progressWrites]

	mu sync.Mutex
	// The map next has the earliest time of the next write of each namespace.
	next map[string]time.Time
}

// progressWrites has the times of the progress writes for one job.
type progressWrites struct {
	// last is the time when the progress of the job was last written. Zero means never.
	last time.Time
	// due is when the next write is due. Zero means that there is no news, or that the time is not determined yet.
	due time.Time
}

// due returns when the status of a job can be written next if only its progress has changed. The parameter hasNews
// reports whether there is progress to write. A job without such news uses no part of the budget.
func (b *progressBudget) due(job types.NamespacedName, now time.Time, hasNews bool) time.Time {
	writes := b.jobs.Of(job)
	if writes == nil {
		writes = &progressWrites{}
		b.jobs.Set(job, writes)
	}
	if earliest := writes.last.Add(view.ProgressInterval); !writes.last.IsZero() && now.Before(earliest) {
		return earliest
	}
	switch {
	case !hasNews:
		writes.due = time.Time{}
		return now
	case writes.due.IsZero():
		writes.due = b.reserve(job.Namespace, now)
	}
	return writes.due
}

// reserve reserves the next write of the namespace, and returns the time of this write. Namespaces whose writes wait
// get equal shares of all writes.
func (b *progressBudget) reserve(namespace string, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = map[string]time.Time{}
	}
	for other, next := range b.next {
		if !next.After(now) {
			delete(b.next, other)
		}
	}
	due, waits := b.next[namespace]
	if !waits {
		due = now
	}
	b.next[namespace] = now // len(b.next) must count this namespace, too
	b.next[namespace] = due.Add(time.Duration(len(b.next)) * time.Second / progressWritesPerSecond)
	return due
}

// wrote notes that the progress of a job was written. It has no effect if the job was forgotten.
func (b *progressBudget) wrote(job types.NamespacedName, now time.Time) {
	if writes := b.jobs.Of(job); writes != nil {
		*writes = progressWrites{last: now}
	}
}
