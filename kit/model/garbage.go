package model

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Garbage returns the keys of the objects that the garbage collector must delete. These are objects whose owner is gone
// or is being deleted in the foreground. letsGoOfJob reports whether a job that is being deleted in the foreground has
// no dependents left, so that the garbage collector can remove it.
func (o Objects) Garbage() (keys []string, letsGoOfJob bool) {
	job := o.Job()
	isDeleted := job != nil && job.GetDeletionTimestamp() != nil
	left := 0
	for _, key := range slices.Sorted(maps.Keys(o)) {
		object := o[key]
		owner := metav1.GetControllerOf(object)
		if owner == nil || isForeign(object) || job != nil && job.GetUID() == owner.UID && !isDeleted {
			continue
		}
		left++
		if object.GetDeletionTimestamp() == nil {
			keys = append(keys, key)
		}
	}
	return keys, isDeleted && left == 0
}

// LetGo removes the object of a key, even if the object has finalizers.
func (c *Cluster) LetGo(key string) { c.put(key, nil) }
