package gang

import schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"

// NeedsHelp reports whether this reason of a condition of a PodGroup means that somebody must act before the PodGroup
// can be scheduled.
func NeedsHelp(reason string) bool {
	switch reason {
	case schedulerv1beta1.ReasonUnschedulable, schedulerv1beta1.ReasonQuotaExceeded, schedulerv1beta1.ReasonQueueNotFound,
		schedulerv1beta1.ReasonQueueClosed, schedulerv1beta1.ReasonNamespaceNotSelected,
		schedulerv1beta1.ReasonEngineNotReady, schedulerv1beta1.ReasonPriorityClassMismatch:
		return true
	default:
		return false
	}
}
