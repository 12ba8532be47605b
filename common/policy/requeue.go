package policy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Earlier returns the earlier of two times. The zero time means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// After returns the time that is a number of seconds after another time. It returns the zero time, which means never,
// if the other time or the number of seconds is nil.
func After[N int32 | int64](start *metav1.Time, seconds *N) time.Time {
	if start == nil || seconds == nil {
		return time.Time{}
	}
	return start.Add(time.Duration(*seconds) * time.Second)
}

// IsDue reports whether a time has come. The zero time means never.
func IsDue(due, now time.Time) bool { return !due.IsZero() && !now.Before(due) }
