package gang

import (
	"cmp"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// defaultPriority is the priority of groups that do not set one.
const defaultPriority = 10

// PriorityOf returns the priority of a group in its queue.
func PriorityOf(spec schedulerv1beta1.PodGroupSpec) int32 {
	if spec.Priority == nil {
		return defaultPriority
	}
	return *spec.Priority
}

// Compare compares groups of a queue in the order in which the scheduler-controller releases them: the highest priority
// first, then the oldest, then by key.
func Compare(a, b *schedulerv1beta1.PodGroup) int {
	return cmp.Or(-cmp.Compare(PriorityOf(a.Spec), PriorityOf(b.Spec)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}
