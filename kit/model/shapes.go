package model

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Shape is the part of a job that the tests vary.
type Shape struct {
	// Replicas of the job, which are all of one type. Index 0 is the leader.
	Replicas int32
	// RestartPolicy of the replicas.
	RestartPolicy batchv1beta1.RestartPolicy
	// Template of the replicas.
	Template corev1.PodTemplateSpec
	// RunPolicy of the job.
	RunPolicy batchv1beta1.RunPolicy
	// RunMode of the job. Nil means that the job neither pauses nor debugs.
	RunMode *batchv1beta1.RunMode
	// Elastic scaling of the job. Nil means none. A framework that does not scale ignores it.
	Elastic *batchv1beta1.ElasticConfig
	// TensorBoard of the job. Nil means none. A framework whose jobs have no TensorBoard ignores it.
	TensorBoard *tensorboardv1beta1.TensorBoardSpec
	// Scheduler of the job. Nil means the default scheduler of the cluster.
	Scheduler *batchv1beta1.SchedulePolicy
	// Kueue reports whether Kueue admits the job.
	Kueue bool
	// Quota is the number of pods that a ResourceQuota of the namespace allows. 0 means that there is no ResourceQuota.
	Quota int64
	// Progress is how the training reports its progress. Nil means that the training reports none.
	Progress *batchv1beta1.ProgressSpec
	// InPlace reports whether the leader counts restarts in place.
	InPlace bool
}

// Short names for restart policies and restart scopes.
const (
	OnFailure = batchv1beta1.RestartPolicyOnFailure
	Never     = batchv1beta1.RestartPolicyNever
	Always    = batchv1beta1.RestartPolicyAlways
	ExitCode  = batchv1beta1.RestartPolicyExitCode

	ScopeJob        = batchv1beta1.RestartScopeJob
	ScopeReplica    = batchv1beta1.RestartScopeReplica
	ScopeRendezvous = batchv1beta1.RestartScopeRendezvous
)

// Policy changes the run policy of a shape.
type Policy func(*batchv1beta1.RunPolicy)

// Two returns the shape of a job of two replicas.
func Two(restart batchv1beta1.RestartPolicy, scope batchv1beta1.RestartScope, policies ...Policy) Shape {
	s := Shape{Replicas: 2, RestartPolicy: restart, RunPolicy: batchv1beta1.RunPolicy{RestartScope: scope}}
	for _, policy := range policies {
		policy(&s.RunPolicy)
	}
	return s
}

// One returns the shape of a job of one replica.
func One(restart batchv1beta1.RestartPolicy, policies ...Policy) Shape {
	s := Two(restart, ScopeJob, policies...)
	s.Replicas = 1
	return s
}

// Debugging returns the shape with the debug mode enabled.
func Debugging(s Shape) Shape {
	s.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
	return s
}

// Limit sets the backoffLimit.
func Limit(n int32) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.BackoffLimit = &n }
}
