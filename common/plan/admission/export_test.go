package admission

import (
	"time"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// At returns the snapshot of a Workload as if it was taken at the given time.
func At(now time.Time, w Workload) Workload {
	w.now = now
	return w
}

// Gated returns the snapshot of a Workload whose job names the given controllers, separated by commas, as those that
// must allow the admission. If there are none, the snapshot does not change.
func Gated(w Workload, gates string) Workload {
	if gates != "" {
		w.gates = map[string]string{kueuev1beta2.AnnotationAdmissionGatedBy: gates}
	}
	return w
}
