package admission

import (
	"time"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// At returns a view of a Workload at the given time.
func At(now time.Time, w Workload) Workload {
	w.now = now
	return w
}

// Gated returns a view of the Workload of a job that waits for the named controllers.
func Gated(w Workload, gates string) Workload {
	if gates != "" {
		w.gates = map[string]string{kueuev1beta2.AnnotationAdmissionGatedBy: gates}
	}
	return w
}
