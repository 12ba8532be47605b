package model

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Cache is what the controller knows of a cluster without asking. It follows the cluster, unless it is frozen or loses
// an event. A Cache is a value: a copy goes on by itself.
type Cache struct {
	shown Objects
	// frozen are the resources that the cache does not follow.
	frozen Resources
	// losing is set if the next event of the watch will be lost; lost is the key of the object whose last one was.
	losing bool
	lost   string
}

// NewCache returns a cache that has all that there is.
func NewCache(live Objects) Cache { return Cache{shown: live} }

// Behind returns the cache as it is if it is frozen of some resources, and shows what there once was of them.
func (c Cache) Behind(past Objects, of Resources) Cache {
	shown := c.shown.Of(^of)
	maps.Copy(shown, past.Of(of))
	return Cache{shown: shown, frozen: c.frozen | of}
}

// Shown returns the objects that the cache has.
func (c *Cache) Shown() Objects { return c.shown }

// Frozen returns the resources that the cache does not follow.
func (c *Cache) Frozen() Resources { return c.frozen }

// Lags reports whether the cache does not have what it would have by now.
func (c *Cache) Lags() bool { return c.frozen != 0 || c.lost != "" }

// Freeze lets the cache follow no further of some resources.
func (c *Cache) Freeze(of Resources) { c.frozen |= of }

// Lost returns the key of the object whose last event was lost, empty for none.
func (c *Cache) Lost() string { return c.lost }

// LoseNext lets the watch lose its next event.
func (c *Cache) LoseNext() { c.losing = true }

// LosesNext reports whether the watch will lose its next event.
func (c *Cache) LosesNext() bool { return c.losing }

// Tell tells the cache of a change. The event of what the controller itself changes is not lost. Tell reports whether
// the change wakes the controller.
func (c *Cache) Tell(change Change, byController bool) (wakes bool) {
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

// CatchUp lets the cache have all that there is of some resources, and reports whether that wakes the controller.
func (c *Cache) CatchUp(live Objects, of Resources) (wakes bool) {
	c.frozen &^= of
	for _, some := range []Objects{c.shown.Of(of), live.Of(of)} {
		for _, key := range slices.Sorted(maps.Keys(some)) {
			wakes = c.show(key, live[key]) || wakes
			if c.lost == key {
				c.lost = ""
			}
		}
	}
	return wakes
}

// show lets the cache hold an object, nil for none, and reports whether the controller has to know.
func (c *Cache) show(key string, object client.Object) (wakes bool) {
	before := c.shown[key]
	if before == object {
		return false
	}
	c.shown = c.shown.with(key, object)
	return changeWakes(before, object)
}

// changeWakes reports whether a change wakes the controller, as SetupWithManager of the job controller determines.
func changeWakes(before, after client.Object) bool {
	switch cmp.Or(after, before).(type) {
	case *corev1.Pod, *tensorboardv1beta1.TensorBoard, *schedulerv1beta1.PodGroup:
		isSeen := func(object client.Object) bool { return object != nil && owned(object) && isCached(object) }
		return isSeen(before) || isSeen(after)
	case *corev1.Service:
		return after == nil || !isCached(after)
	case *networkingv1.NetworkPolicy:
		return after == nil || before != nil && before.GetGeneration() != after.GetGeneration()
	default:
		return before == nil || after == nil || before.GetGeneration() != after.GetGeneration()
	}
}
