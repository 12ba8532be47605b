package model

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Pausing returns the shape with the pause enabled.
func Pausing(s Shape) Shape {
	Pause(&s)
	return s
}

// Pause is an edit that pauses the job.
func Pause(s *Shape) {
	s.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
}

// Resume is an edit that resumes the job.
func Resume(s *Shape) { s.RunMode = nil }
