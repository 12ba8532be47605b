package admission

import (
	"time"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// At returns the snapshot of a Workload with the given time as its current time.
func At(now time.Time, w Workload) Workload {
	w.now = now
	return w
}

// Gated returns the snapshot of a Workload. Its job has the given annotation about the controllers that must allow
// the admission. Empty means no annotation.
func Gated(w Workload, gates string) Workload {
	if gates != "" {
		w.gates = map[string]string{kueuev1beta2.AnnotationAdmissionGatedBy: gates}
	}
	return w
}
