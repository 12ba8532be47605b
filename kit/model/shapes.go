package model

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
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
}

// Short names for restart policies and restart scopes.
const (
	OnFailure = batchv1beta1.RestartPolicyOnFailure
	Never     = batchv1beta1.RestartPolicyNever
	Always    = batchv1beta1.RestartPolicyAlways
	ExitCode  = batchv1beta1.RestartPolicyExitCode

	ScopeJob     = batchv1beta1.RestartScopeJob
	ScopeReplica = batchv1beta1.RestartScopeReplica
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

// Elastic returns the shape of an elastic job with the given minimum and expected number of replicas. The maximum is 4.
func Elastic(least, expected int32, scope batchv1beta1.RestartScope, policies ...Policy) Shape {
	s := Two(OnFailure, scope, policies...)
	s.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(4)), ExpectedReplicas: &expected,
	}
	return s
}

// TwoWithTensorBoard returns the shape of a collective of two replicas with a TensorBoard of image tb:1.
func TwoWithTensorBoard() Shape {
	s := Two(OnFailure, ScopeJob)
	s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: "tb:1"}
	return s
}

// InQueue returns the shape with a queue, so that the job is scheduled as a gang.
func InQueue(s Shape) Shape {
	s.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
	return s
}

// InKueue returns the shape of a job that Kueue admits.
func InKueue(s Shape) Shape {
	s.Kueue = true
	return s
}

// UnderQuota returns the shape of a job in a namespace whose ResourceQuota allows the given number of pods.
func UnderQuota(s Shape, pods int64) Shape {
	s.Quota = pods
	return s
}

// WithTopology returns the shape of a job that Kueue admits and whose nodes Kueue assigns.
func WithTopology(s Shape) Shape {
	s = InKueue(s)
	s.Template.Annotations = map[string]string{kueuev1beta2.AnnotationUnconstrained: "true"}
	return s
}

// OnZones returns the shape of a job whose pods can run on the nodes of two zones.
func OnZones(s Shape) Shape {
	var terms []corev1.NodeSelectorTerm
	for _, zone := range []string{"a", "b"} {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		}})
	}
	s.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return s
}

// Debugging returns the shape with the debug mode enabled.
func Debugging(s Shape) Shape {
	s.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
	return s
}

// Reporting returns the shape of a job whose training reports its progress.
func Reporting(s Shape) Shape {
	s.Progress = &batchv1beta1.ProgressSpec{Enabled: true}
	return s
}

// Pausing returns the shape with the pause enabled.
func Pausing(s Shape) Shape {
	Pause(&s)
	return s
}

// Limit sets the backoffLimit.
func Limit(n int32) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.BackoffLimit = &n }
}

// CleanUp sets the cleanUpPolicy.
func CleanUp(policy batchv1beta1.CleanUpPolicy) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.CleanUpPolicy = policy }
}

// Deadline sets activeDeadlineSeconds.
func Deadline(seconds int64) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.ActiveDeadlineSeconds = &seconds }
}

// IgnoresNodes sets the badNodePolicy Ignore, so that new pods do not avoid nodes with faults.
func IgnoresNodes(p *batchv1beta1.RunPolicy) { p.BadNodePolicy = batchv1beta1.BadNodePolicyIgnore }

// TimeToLive sets ttlSecondsAfterFinished.
func TimeToLive(seconds int32) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.TTLSecondsAfterFinished = &seconds }
}

// Stalls sets the policy for stalled trainings, and the deadlines in seconds for progress and for the first report. A
// deadline of 0 means none.
func Stalls(what batchv1beta1.ProgressPolicy, progressDeadline, startupDeadline int64) Policy {
	return func(p *batchv1beta1.RunPolicy) {
		p.ProgressPolicy = what
		if progressDeadline > 0 {
			p.ProgressDeadlineSeconds = &progressDeadline
		}
		if startupDeadline > 0 {
			p.StartupDeadlineSeconds = &startupDeadline
		}
	}
}
