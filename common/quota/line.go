package quota

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgetAfter is how long a Line keeps a job that does not ask again. It is longer than the maximum time between two
// attempts of a job to create its pods.
const forgetAfter = 2 * time.Minute

// Line holds the jobs that wait for ResourceQuotas. The oldest job that fits goes first, and others only beside it. The
// zero value is an empty line. Its methods can be called at the same time.
type Line struct {
	mu sync.Mutex
	// quotas are the ResourceQuotas that jobs wait for, and their jobs.
	quotas map[types.NamespacedName]map[types.NamespacedName]place
	// waitsFor is the ResourceQuota that a job waits for.
	waitsFor map[types.NamespacedName]types.NamespacedName
}

// place is a job in a line.
type place struct {
	created time.Time
	// needs has only the resources that the ResourceQuota limits. A job can name many others.
	needs corev1.ResourceList
	// asked is when the job asked last.
	asked time.Time
}

// Ask puts a job into the line of a ResourceQuota. It reports whether its needs fit in what is free, beside those of
// all older jobs in the line that fit. now is the current time.
func (l *Line) Ask(
	quota, job types.NamespacedName, created time.Time, needs, free corev1.ResourceList, now time.Time,
) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.waitsFor[job]; ok && before != quota {
		l.leave(job)
	}
	if l.quotas == nil {
		l.quotas = map[types.NamespacedName]map[types.NamespacedName]place{}
		l.waitsFor = map[types.NamespacedName]types.NamespacedName{}
	}
	if l.quotas[quota] == nil {
		l.quotas[quota] = map[types.NamespacedName]place{}
	}
	limited := corev1.ResourceList{}
	for name := range free {
		if needed, ok := needs[name]; ok {
			limited[name] = needed
		}
	}
	l.quotas[quota][job], l.waitsFor[job] = place{created: created, needs: limited, asked: now}, quota
	return slices.Contains(l.fitting(quota, free, now), job)
}

// Fitting returns the jobs in the line of a ResourceQuota that fit in what is free, each beside the older ones. now is
// the current time.
func (l *Line) Fitting(quota types.NamespacedName, free corev1.ResourceList, now time.Time) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fitting(quota, free, now)
}

func (l *Line) fitting(quota types.NamespacedName, free corev1.ResourceList, now time.Time) []types.NamespacedName {
	places := l.quotas[quota]
	older := func(a, b types.NamespacedName) int {
		return cmp.Or(places[a].created.Compare(places[b].created), cmp.Compare(a.Name, b.Name))
	}
	left := free.DeepCopy()
	var fitting []types.NamespacedName
	for _, job := range slices.SortedFunc(maps.Keys(places), older) {
		switch p := places[job]; {
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

// Quotas returns the names of the ResourceQuotas in the namespace of a job that other jobs wait for.
func (l *Line) Quotas(job types.NamespacedName) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for quota, places := range l.quotas {
		_, isOwn := places[job]
		if quota.Namespace == job.Namespace && (!isOwn || len(places) > 1) {
			names = append(names, quota.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Leave removes a job from the line that it is in, if any.
func (l *Line) Leave(job types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(job)
}

func (l *Line) leave(job types.NamespacedName) {
	quota, ok := l.waitsFor[job]
	if !ok {
		return
	}
	delete(l.waitsFor, job)
	if delete(l.quotas[quota], job); len(l.quotas[quota]) == 0 {
		delete(l.quotas, quota)
	}
}
