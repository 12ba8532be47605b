package policy

import (
	"cmp"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Defaults returns the defaults of this version of the controller for the run policy of a job. It returns the default
// of a field even if the job sets the field.
func Defaults(spec framework.JobSpec) batchv1beta1.PolicyDefaults {
	return batchv1beta1.PolicyDefaults{
		RestartScope:   batchv1beta1.PolicyDefault(spec.DefaultRestartScope),
		ProgressPolicy: batchv1beta1.PolicyDefault(batchv1beta1.ProgressPolicyNotify),
		BadNodePolicy:  batchv1beta1.PolicyDefault(batchv1beta1.BadNodePolicyAvoid),
	}
}

// WithDefaults returns the spec of a job with the defaults that its status has recorded. The default of this version
// of the controller applies if the status has recorded no value, or a restart scope that this version does not know.
func WithDefaults(spec framework.JobSpec, recorded *batchv1beta1.PolicyDefaults) framework.JobSpec {
	if recorded == nil {
		return spec
	}
	switch recorded.RestartScope {
	case batchv1beta1.DefaultScopeJob, batchv1beta1.DefaultScopeReplica, batchv1beta1.DefaultScopeRendezvous:
		spec.DefaultRestartScope = batchv1beta1.RestartScope(recorded.RestartScope)
	}
	run := &spec.RunPolicy
	run.ProgressPolicy = cmp.Or(run.ProgressPolicy, batchv1beta1.ProgressPolicy(recorded.ProgressPolicy))
	run.BadNodePolicy = cmp.Or(run.BadNodePolicy, batchv1beta1.BadNodePolicy(recorded.BadNodePolicy))
	return spec
}
