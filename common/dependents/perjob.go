package dependents

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// PerJob remembers a value for each job. The zero PerJob is empty and ready to use, also by several goroutines.
type PerJob[V comparable] struct {
	values sync.Map // types.NamespacedName -> V
}

// Of returns the value of a job. It returns the zero value if the job has none.
func (p *PerJob[V]) Of(job types.NamespacedName) V {
	stored, _ := p.values.Load(job)
	value, _ := stored.(V)
	return value
}

// Set sets the value of a job. The zero value means none.
func (p *PerJob[V]) Set(job types.NamespacedName, value V) {
	var none V
	if value == none {
		p.Forget(job)
		return
	}
	p.values.Store(job, value)
}

// Forget drops the value of a job.
func (p *PerJob[V]) Forget(job types.NamespacedName) { p.values.Delete(job) }
