package jobs

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LastSeen returns when an event occurred last.
func LastSeen(e *corev1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time)
}
