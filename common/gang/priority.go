package gang

import schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"

// defaultPriority is the priority of groups that do not set one.
const defaultPriority = 10

// PriorityOf returns the priority of a group in its queue.
func PriorityOf(spec schedulerv1beta1.PodGroupSpec) int32 {
	if spec.Priority == nil {
		return defaultPriority
	}
	return *spec.Priority
}
