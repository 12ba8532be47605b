package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	const job, replica = batchv1beta1.RestartScopeJob, batchv1beta1.RestartScopeReplica
	for name, tc := range map[string]struct {
		spec framework.JobSpec
		want batchv1beta1.PolicyDefault
	}{
		"a collective restarts as a whole":   {framework.JobSpec{DefaultRestartScope: job}, "Job"},
		"independent replicas restart alone": {framework.JobSpec{DefaultRestartScope: replica}, "Replica"},
		"members of a rendezvous restart alone while it is open": {
			framework.JobSpec{DefaultRestartScope: batchv1beta1.RestartScopeRendezvous}, "Rendezvous",
		},
		"the run policy does not change the defaults": {
			framework.JobSpec{DefaultRestartScope: job, RunPolicy: batchv1beta1.RunPolicy{RestartScope: replica}}, "Job",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := batchv1beta1.PolicyDefaults{RestartScope: tc.want, ProgressPolicy: "Notify", BadNodePolicy: "Avoid"}
			if diff := cmp.Diff(want, Defaults(tc.spec)); diff != "" {
				t.Errorf("unexpected defaults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithDefaults(t *testing.T) {
	t.Parallel()
	set := batchv1beta1.RunPolicy{ProgressPolicy: "Notify", BadNodePolicy: "Avoid"}
	rendezvous := framework.JobSpec{DefaultRestartScope: "Rendezvous"}
	for name, tc := range map[string]struct {
		spec     framework.JobSpec
		recorded *batchv1beta1.PolicyDefaults
		want     framework.JobSpec
	}{
		"nothing changes without a record": {spec: rendezvous, want: rendezvous},
		"nothing changes with an empty record": {
			spec: rendezvous, recorded: &batchv1beta1.PolicyDefaults{}, want: rendezvous,
		},
		"a word that is not known changes nothing": {
			spec: rendezvous, recorded: &batchv1beta1.PolicyDefaults{RestartScope: "Half"}, want: rendezvous,
		},
		"Job ends the rendezvous": {
			spec: rendezvous, recorded: &batchv1beta1.PolicyDefaults{RestartScope: "Job"},
			want: framework.JobSpec{DefaultRestartScope: "Job"},
		},
		"Replica ends the rendezvous": {
			spec: rendezvous, recorded: &batchv1beta1.PolicyDefaults{RestartScope: "Replica"},
			want: framework.JobSpec{DefaultRestartScope: "Replica"},
		},
		"Rendezvous begins one": {
			spec:     framework.JobSpec{DefaultRestartScope: "Job"},
			recorded: &batchv1beta1.PolicyDefaults{RestartScope: "Rendezvous"}, want: rendezvous,
		},
		"the other fields are set": {
			recorded: &batchv1beta1.PolicyDefaults{ProgressPolicy: "Restart", BadNodePolicy: "Ignore"},
			want: framework.JobSpec{
				RunPolicy: batchv1beta1.RunPolicy{ProgressPolicy: "Restart", BadNodePolicy: "Ignore"},
			},
		},
		"a field that the spec sets stays": {
			spec:     framework.JobSpec{RunPolicy: set},
			recorded: &batchv1beta1.PolicyDefaults{ProgressPolicy: "Restart", BadNodePolicy: "Ignore"},
			want:     framework.JobSpec{RunPolicy: set},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, WithDefaults(tc.spec, tc.recorded)); diff != "" {
				t.Errorf("unexpected spec (-want +got):\n%s", diff)
			}
		})
	}
}
