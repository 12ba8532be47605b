package model

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Edit changes the shape of the job, as its user does.
func (c *Cluster) Edit(kind Kind, s Shape) { c.Put(kind.edited(c.Live().Job(), s)) }

// Pause is an edit that pauses the job.
func Pause(s *Shape) {
	s.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
}

// Resume is an edit that resumes the job.
func Resume(s *Shape) { s.RunMode = nil }

// Scale returns an edit that changes the expected number of replicas.
func Scale(expected int32) func(*Shape) {
	return func(s *Shape) {
		elastic := *s.Elastic
		elastic.ExpectedReplicas = &expected
		s.Elastic = &elastic
	}
}
