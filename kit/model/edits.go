package model

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Edit gives the job another shape, as its user does.
func (c *Cluster) Edit(kind Kind, s Shape) { c.Put(kind.edited(c.Live().Job(), s)) }

// Pause is the edit of a user who pauses the job.
func Pause(s *Shape) {
	s.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
}

// Resume is the edit of a user who ends the pause.
func Resume(s *Shape) { s.RunMode = nil }

// Scale is the edit of a user who expects another number of replicas.
func Scale(expected int32) func(*Shape) {
	return func(s *Shape) {
		elastic := *s.Elastic
		elastic.ExpectedReplicas = &expected
		s.Elastic = &elastic
	}
}
