package model

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// Cache is the controller's cache of a cluster. It follows the cluster unless it is frozen or loses an event. A Cache
// is a value: copies do not affect each other.
type Cache struct {
	shown Objects
	// frozen are the resources that the cache does not follow.
	frozen Resources
	// losing reports whether the watch will lose its next event. lost is the key of the object whose last event was lost.
	losing bool
	lost   string
}

// NewCache returns a cache that contains all live objects.
func NewCache(live Objects) Cache { return Cache{shown: live} }

// Behind returns a stale copy of the cache. The copy is frozen for some resources and shows past objects of these
// resources.
func (c Cache) Behind(past Objects, of Resources) Cache {
	shown := c.shown.Of(^of)
	maps.Copy(shown, past.Of(of))
	return Cache{shown: shown, frozen: c.frozen | of}
}

// Shown returns the objects in the cache.
func (c *Cache) Shown() Objects { return c.shown }

// Frozen returns the resources that the cache does not follow.
func (c *Cache) Frozen() Resources { return c.frozen }

// Lags reports whether the cache is stale: a resource is frozen or an event was lost.
func (c *Cache) Lags() bool { return c.frozen != 0 || c.lost != "" }

// Freeze stops the cache from following some resources.
func (c *Cache) Freeze(of Resources) { c.frozen |= of }

// Lost returns the key of the object whose last event was lost. Empty means none.
func (c *Cache) Lost() string { return c.lost }

// LoseNext makes the watch lose its next event.
func (c *Cache) LoseNext() { c.losing = true }

// LosesNext reports whether the watch will lose its next event.
func (c *Cache) LosesNext() bool { return c.losing }

// Tell delivers a change to the cache and reports whether the change enqueues a reconcile. Events of the controller's
// own changes are never lost.
func (c *Cache) Tell(change Change, byController bool) (enqueues bool) {
	switch {
	case c.frozen&change.Resource() != 0:
		return false
	case c.losing && !byController:
		c.losing, c.lost = false, change.Key
		return false
	}
	if c.lost == change.Key {
		c.lost = ""
	}
	return c.show(change.Key, change.After)
}

// CatchUp updates the cache to the live objects of some resources and reports whether that enqueues a reconcile.
func (c *Cache) CatchUp(live Objects, of Resources) (enqueues bool) {
	c.frozen &^= of
	for _, some := range []Objects{c.shown.Of(of), live.Of(of)} {
		for _, key := range slices.Sorted(maps.Keys(some)) {
			enqueues = c.show(key, live[key]) || enqueues
			if c.lost == key {
				c.lost = ""
			}
		}
	}
	return enqueues
}

// show sets the cached object of a key and reports whether that enqueues a reconcile. A nil object removes the key.
func (c *Cache) show(key string, object client.Object) (enqueues bool) {
	before := c.shown[key]
	if before == object {
		return false
	}
	c.shown = c.shown.with(key, object)
	return changeEnqueues(before, object)
}

// changeEnqueues reports whether a change enqueues a reconcile, by the rules in SetupWithManager of the job controller.
func changeEnqueues(before, after client.Object) bool {
	switch cmp.Or(after, before).(type) {
	case *corev1.Pod, *tensorboardv1beta1.TensorBoard, *schedulerv1beta1.PodGroup, *kueuev1beta2.Workload:
		isSeen := func(object client.Object) bool { return object != nil && owned(object) && isCached(object) }
		return isSeen(before) || isSeen(after)
	case *corev1.Service:
		return after == nil || !isCached(after)
	case *networkingv1.NetworkPolicy:
		return after == nil || before != nil && before.GetGeneration() != after.GetGeneration()
	case framework.Job:
		old, wasJob := before.(framework.Job)
		job, isJob := after.(framework.Job)
		return !wasJob || !isJob || old.GetGeneration() != job.GetGeneration() ||
			policy.RecordsDevice(*old.JobStatus(), *job.JobStatus()) || policy.ChangesWait(*old.JobStatus(), *job.JobStatus())
	default:
		return before == nil || after == nil || before.GetGeneration() != after.GetGeneration()
	}
}
