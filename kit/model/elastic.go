package model

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// Elastic returns the shape of an elastic job with the given minimum and expected number of replicas. The maximum is 4.
func Elastic(least, expected int32, scope batchv1beta1.RestartScope, policies ...Policy) Shape {
	s := Two(OnFailure, scope, policies...)
	s.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(4)), ExpectedReplicas: &expected,
	}
	return s
}

// Scale returns an edit that changes the expected number of replicas.
func Scale(expected int32) func(*Shape) {
	return func(s *Shape) {
		elastic := *s.Elastic
		elastic.ExpectedReplicas = &expected
		s.Elastic = &elastic
	}
}
