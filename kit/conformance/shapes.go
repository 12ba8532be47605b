package conformance

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

const (
	onFailure = batchv1beta1.RestartPolicyOnFailure
	never     = batchv1beta1.RestartPolicyNever
	always    = batchv1beta1.RestartPolicyAlways
	exitCode  = batchv1beta1.RestartPolicyExitCode

	scopeJob     = batchv1beta1.RestartScopeJob
	scopeReplica = batchv1beta1.RestartScopeReplica
)

// two returns the shape of a job of two replicas.
func two(restart batchv1beta1.RestartPolicy, scope batchv1beta1.RestartScope, options ...func(*batchv1beta1.RunPolicy)) Shape {
	s := Shape{Replicas: 2, RestartPolicy: restart, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scope}}
	for _, option := range options {
		option(&s.RunPolicy)
	}
	return s
}

// elastic returns the shape of a job that expects some replicas, of at most 4, and can run with fewer.
func elastic(least, expected int32, scope batchv1beta1.RestartScope, options ...func(*batchv1beta1.RunPolicy)) Shape {
	s := two(onFailure, scope, options...)
	s.Elastic = &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(4)), ExpectedReplicas: &expected}
	return s
}

// twoWithTensorBoard returns the shape of a job of two replicas, which are a collective, with a TensorBoard of image tb:1.
func twoWithTensorBoard() Shape {
	s := two(onFailure, scopeJob)
	s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: "tb:1"}
	return s
}

// inQueue returns a shape with a job that is scheduled as a gang.
func inQueue(s Shape) Shape {
	s.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
	return s
}

// policies changes the run policy of a shape.
func policies(options ...func(*batchv1beta1.RunPolicy)) func(*Shape) {
	return func(s *Shape) {
		for _, option := range options {
			option(&s.RunPolicy)
		}
	}
}

func limit(n int32) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.BackoffLimit = &n }
}

func cleanUp(policy batchv1beta1.CleanUpPolicy) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.CleanUpPolicy = policy }
}

func deadline(seconds int64) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.ActiveDeadlineSeconds = &seconds }
}

func timeToLive(seconds int32) func(*batchv1beta1.RunPolicy) {
	return func(p *batchv1beta1.RunPolicy) { p.TTLSecondsAfterFinished = &seconds }
}
