package quota

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// forgetAfter is how long a Line keeps a job after the last call of Ask for this job. It is longer than the maximum
// time between two attempts of a job to create its pods.
const forgetAfter = 2 * time.Minute

// Line contains the jobs that wait for ResourceQuotas. A job can create its pods if they fit into the free resources
// in addition to the pods of all older jobs that fit. The zero value is an empty line. A Line is safe for concurrent
// use.
type Line struct {
	mu sync.Mutex
	// namespaces are the jobs that wait, by their namespaces and names.
	namespaces map[string]map[string]place
}

// place is the place of a job in the line of a ResourceQuota. A job waits for one ResourceQuota at a time.
type place struct {
	quota   string
	created time.Time
	// needs is the list of resources that the job needs and that the ResourceQuota limits. Other resources are omitted,
	// because a job can request any number of them.
	needs corev1.ResourceList
	// asked is the time of the last call of Ask for the job.
	asked time.Time
}

// Ask puts a job into the line of a ResourceQuota of its namespace. It reports whether the needs of the job fit into
// the free resources, together with the needs of all older jobs in the line that fit. The argument now is the current
// time.
func (l *Line) Ask(
	quota string, job types.NamespacedName, created time.Time, needs, free corev1.ResourceList, now time.Time,
) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.namespaces == nil {
		l.namespaces = map[string]map[string]place{}
	}
	if l.namespaces[job.Namespace] == nil {
		l.namespaces[job.Namespace] = map[string]place{}
	}
	limited := corev1.ResourceList{}
	for name := range free {
		if needed, ok := needs[name]; ok {
			limited[name] = needed
		}
	}
	l.namespaces[job.Namespace][job.Name] = place{quota: quota, created: created, needs: limited, asked: now}
	return slices.Contains(l.fitting(types.NamespacedName{Namespace: job.Namespace, Name: quota}, free, now), job)
}

// Fitting returns the jobs in the line of a ResourceQuota that fit into the free resources, each together with the
// older ones that fit. The argument now is the current time.
func (l *Line) Fitting(quota types.NamespacedName, free corev1.ResourceList, now time.Time) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fitting(quota, free, now)
}

func (l *Line) fitting(quota types.NamespacedName, free corev1.ResourceList, now time.Time) []types.NamespacedName {
	places := l.namespaces[quota.Namespace]
	older := func(a, b string) int {
		return cmp.Or(places[a].created.Compare(places[b].created), cmp.Compare(a, b))
	}
	left := free.DeepCopy()
	var fitting []types.NamespacedName
	for _, name := range slices.SortedFunc(maps.Keys(places), older) {
		job := types.NamespacedName{Namespace: quota.Namespace, Name: name}
		switch p := places[name]; {
		case p.quota != quota.Name:
		case now.Sub(p.asked) > forgetAfter:
			l.leave(job)
		case fits(p.needs, left):
			fitting = append(fitting, job)
			for name, needed := range p.needs {
				if have, ok := left[name]; ok {
					have.Sub(needed)
					left[name] = have
				}
			}
		}
	}
	return fitting
}

// Quotas returns the names of the ResourceQuotas that other jobs in the namespace of a job wait for.
func (l *Line) Quotas(job types.NamespacedName) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := sets.Set[string]{}
	for other, p := range l.namespaces[job.Namespace] {
		if other != job.Name {
			names.Insert(p.quota)
		}
	}
	return sets.List(names)
}

// Leave removes a job from the line that it is in, if any.
func (l *Line) Leave(job types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(job)
}

func (l *Line) leave(job types.NamespacedName) {
	places := l.namespaces[job.Namespace]
	if delete(places, job.Name); len(places) == 0 {
		delete(l.namespaces, job.Namespace)
	}
}
