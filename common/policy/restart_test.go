package policy

import (
	"cmp"
	"testing"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

func TestRestarts(t *testing.T) {
	t.Parallel()
	const (
		always    = batchv1beta1.RestartPolicyAlways
		onFailure = batchv1beta1.RestartPolicyOnFailure
		never     = batchv1beta1.RestartPolicyNever
		exitCode  = batchv1beta1.RestartPolicyExitCode
	)
	succeeded := Outcome{Phase: batchv1beta1.ReplicaPhaseSucceeded}
	failed := func(code int32) Outcome {
		return Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Failure: &Failure{ExitCode: &code}}
	}
	noCode := Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Failure: &Failure{Ignored: true}}
	for name, tc := range map[string]struct {
		policy  batchv1beta1.RestartPolicy
		outcome Outcome
		want    bool
	}{
		"Always restarts a success":             {always, succeeded, true},
		"Always restarts a failure":             {always, failed(1), true},
		"OnFailure leaves a success":            {onFailure, succeeded, false},
		"OnFailure restarts a failure":          {onFailure, failed(1), true},
		"OnFailure restarts one without a code": {onFailure, noCode, true},
		"Never leaves a success":                {never, succeeded, false},
		"Never leaves a failure":                {never, failed(137), false},
		"Never leaves a disruption": {
			never,
			Outcome{Disruption: batchv1beta1.ReasonPreempted, Failure: &Failure{ExitCode: ptr.To[int32](143), Ignored: true}},
			false,
		},
		"ExitCode leaves a success":                  {exitCode, succeeded, false},
		"ExitCode leaves 1":                          {exitCode, failed(1), false},
		"ExitCode leaves 129":                        {exitCode, failed(129), false},
		"ExitCode restarts 130, SIGINT":              {exitCode, failed(130), true},
		"ExitCode leaves 134, SIGABRT":               {exitCode, failed(134), false},
		"ExitCode restarts 137, SIGKILL":             {exitCode, failed(137), true},
		"ExitCode restarts 138, the user's own":      {exitCode, failed(138), true},
		"ExitCode leaves 139, SIGSEGV":               {exitCode, failed(139), false},
		"ExitCode restarts 143, SIGTERM":             {exitCode, failed(143), true},
		"ExitCode leaves 255":                        {exitCode, failed(255), false},
		"ExitCode restarts a failure without a code": {exitCode, noCode, true},
		"ExitCode restarts a failure that counts and has no code": {
			exitCode, Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Failure: &Failure{}}, true,
		},
		"ExitCode restarts a disruption, whatever it exits by": {
			exitCode, Outcome{Failure: &Failure{ExitCode: ptr.To[int32](1), Ignored: true}}, true,
		},
		"a policy that is not set is Never": {"", failed(1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Restarts(tc.policy, tc.outcome.Failure); got != tc.want {
				t.Errorf("Restarts is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	const (
		scopeJob     = batchv1beta1.RestartScopeJob
		scopeReplica = batchv1beta1.RestartScopeReplica
	)
	for name, tc := range map[string]struct{ set, byDefault, want batchv1beta1.RestartScope }{
		"the default of the kind":           {byDefault: scopeJob, want: scopeJob},
		"another default of the kind":       {byDefault: scopeReplica, want: scopeReplica},
		"the run policy wins":               {set: scopeReplica, byDefault: scopeJob, want: scopeReplica},
		"the run policy wins the other way": {set: scopeJob, byDefault: scopeReplica, want: scopeJob},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Scope(framework.JobSpec{
				RunPolicy:           batchv1beta1.RunPolicy{RestartScope: tc.set},
				DefaultRestartScope: tc.byDefault,
			})
			if got != tc.want {
				t.Errorf("Scope is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFailureScope(t *testing.T) {
	t.Parallel()
	const (
		onFailure = batchv1beta1.RestartPolicyOnFailure
		job       = batchv1beta1.RestartScopeJob
		replica   = batchv1beta1.RestartScopeReplica
	)
	exited := func(code int32) Failure { return Failure{ExitCode: &code} }
	collective := framework.JobSpec{DefaultRestartScope: job}
	independent := framework.JobSpec{DefaultRestartScope: replica}
	rendezvous := framework.JobSpec{DefaultRestartScope: replica, Rendezvous: true}
	told := framework.JobSpec{
		DefaultRestartScope: replica, Rendezvous: true, RunPolicy: batchv1beta1.RunPolicy{RestartScope: replica},
	}
	for name, tc := range map[string]struct {
		spec    framework.JobSpec
		restart batchv1beta1.RestartPolicy
		leads   bool
		failure Failure
		want    batchv1beta1.RestartScope
	}{
		"a member of a collective takes all":       {spec: collective, failure: exited(137), want: job},
		"a replica of others takes nobody":         {spec: independent, failure: exited(1), want: replica},
		"nor does their leader":                    {spec: independent, leads: true, failure: exited(1), want: replica},
		"a rendezvous ends when a member gives up": {spec: rendezvous, failure: exited(1), want: job},
		"not when one ends by a code that signals begin with": {
			spec: rendezvous, failure: exited(128), want: replica,
		},
		"not when one is killed": {spec: rendezvous, failure: exited(137), want: replica},
		"not when one is preempted, whatever it exits by": {
			spec: rendezvous, failure: Failure{ExitCode: ptr.To[int32](1), Ignored: true}, want: replica,
		},
		"not when one could not start": {spec: rendezvous, failure: Failure{}, want: replica},
		"not when one could not prepare itself": {
			spec: rendezvous, failure: Failure{ExitCode: ptr.To[int32](1), Init: true}, want: replica,
		},
		"it ends with its leader, who is killed": {spec: rendezvous, leads: true, failure: exited(137), want: job},
		"or preempted": {
			spec: rendezvous, leads: true, failure: Failure{Ignored: true}, want: job,
		},
		"what is not restarted takes nobody": {
			spec: rendezvous, restart: batchv1beta1.RestartPolicyNever, failure: exited(1), want: replica,
		},
		"it is as the user says": {spec: told, leads: true, failure: exited(1), want: replica},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restart := cmp.Or(tc.restart, onFailure)
			if got := FailureScope(tc.spec, restart, tc.leads, tc.failure); got != tc.want {
				t.Errorf("it restarts the %s, want %s", got, tc.want)
			}
		})
	}
}
