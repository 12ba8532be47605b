package model

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Garbage returns the keys of what the garbage collector is to delete: what has lost its owner, or has one that is
// deleted in the foreground. It lets go of such a job once all that the job owns is gone.
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

// LetGo removes the object of a key, whatever it waits for.
func (c *Cluster) LetGo(key string) { c.put(key, nil) }
