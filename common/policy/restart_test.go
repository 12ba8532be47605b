package policy

import (
	"cmp"
	"testing"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/trainlog"
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
	launched := func(code, ofProcess int32) Outcome {
		failure := &Failure{ExitCode: &code, Report: trainlog.Report{ExitCode: &ofProcess}}
		return Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Failure: failure}
	}
	noCode := Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Failure: &Failure{Ignored: true}}
	for name, tc := range map[string]struct {
		policy  batchv1beta1.RestartPolicy
		outcome Outcome
		want    bool
	}{
		"Always restarts after a success":                         {always, succeeded, true},
		"Always restarts after a failure":                         {always, failed(1), true},
		"OnFailure does not restart after a success":              {onFailure, succeeded, false},
		"OnFailure restarts after a failure":                      {onFailure, failed(1), true},
		"OnFailure restarts after a failure without an exit code": {onFailure, noCode, true},
		"Never does not restart after a success":                  {never, succeeded, false},
		"Never does not restart after a failure":                  {never, failed(137), false},
		"Never does not restart after a disruption": {
			never,
			Outcome{Disruption: batchv1beta1.ReasonPreempted, Failure: &Failure{ExitCode: ptr.To[int32](143), Ignored: true}},
			false,
		},
		"ExitCode does not restart after a success":              {exitCode, succeeded, false},
		"ExitCode does not restart after 1":                      {exitCode, failed(1), false},
		"ExitCode does not restart after 129":                    {exitCode, failed(129), false},
		"ExitCode restarts after 130, SIGINT":                    {exitCode, failed(130), true},
		"ExitCode does not restart after 134, SIGABRT":           {exitCode, failed(134), false},
		"ExitCode restarts after 137, SIGKILL":                   {exitCode, failed(137), true},
		"ExitCode restarts after 138, SIGUSR1":                   {exitCode, failed(138), true},
		"ExitCode does not restart after 139, SIGSEGV":           {exitCode, failed(139), false},
		"ExitCode restarts after 143, SIGTERM":                   {exitCode, failed(143), true},
		"ExitCode does not restart after 255":                    {exitCode, failed(255), false},
		"ExitCode restarts after a failure without an exit code": {exitCode, noCode, true},
		"ExitCode restarts after a counted failure without an exit code": {
			exitCode, Outcome{Phase: batchv1beta1.ReplicaPhaseFailed, Failure: &Failure{}}, true,
		},
		"ExitCode restarts after a disruption, whatever the exit code": {
			exitCode, Outcome{Failure: &Failure{ExitCode: ptr.To[int32](1), Ignored: true}}, true,
		},
		"ExitCode restarts after a process of a launcher ended with 138":            {exitCode, launched(1, 138), true},
		"ExitCode restarts after SIGINT ended a process of a launcher":              {exitCode, launched(1, -2), true},
		"ExitCode restarts after SIGKILL ended a process of a launcher":             {exitCode, launched(1, -9), true},
		"ExitCode restarts after SIGUSR1 ended a process of a launcher":             {exitCode, launched(1, -10), true},
		"ExitCode restarts after SIGTERM ended a process of a launcher":             {exitCode, launched(1, -15), true},
		"ExitCode does not restart after a process of a launcher ended with 3":      {exitCode, launched(1, 3), false},
		"ExitCode does not restart after SIGABRT ended a process of a launcher":     {exitCode, launched(1, -6), false},
		"ExitCode does not restart after SIGSEGV ended a process of a launcher":     {exitCode, launched(1, -11), false},
		"ExitCode restarts after the launcher was killed, whatever its process did": {exitCode, launched(137, 1), true},
		"an unset policy is Never": {"", failed(1), false},
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
		"the default of the kind can be Job":            {byDefault: scopeJob, want: scopeJob},
		"the default of the kind can be Replica":        {byDefault: scopeReplica, want: scopeReplica},
		"Replica in the run policy overrides a default": {set: scopeReplica, byDefault: scopeJob, want: scopeReplica},
		"Job in the run policy overrides a default":     {set: scopeJob, byDefault: scopeReplica, want: scopeJob},
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

func TestRestartsTogether(t *testing.T) {
	t.Parallel()
	const (
		job        = batchv1beta1.RestartScopeJob
		replica    = batchv1beta1.RestartScopeReplica
		rendezvous = batchv1beta1.RestartScopeRendezvous
	)
	for name, tc := range map[string]struct {
		spec framework.JobSpec
		want bool
	}{
		"the replicas of a collective restart together": {framework.JobSpec{DefaultRestartScope: job}, true},
		"independent replicas restart alone":            {framework.JobSpec{DefaultRestartScope: replica}, false},
		"the end of a rendezvous restarts all its members": {
			framework.JobSpec{DefaultRestartScope: rendezvous}, true,
		},
		"a scope that the user sets overrides a rendezvous": {framework.JobSpec{
			DefaultRestartScope: rendezvous, RunPolicy: batchv1beta1.RunPolicy{RestartScope: replica},
		}, false},
		"a stall restarts all replicas": {framework.JobSpec{
			DefaultRestartScope: replica,
			RunPolicy:           batchv1beta1.RunPolicy{ProgressPolicy: batchv1beta1.ProgressPolicyRestart},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RestartsTogether(tc.spec); got != tc.want {
				t.Errorf("RestartsTogether is %t, want %t", got, tc.want)
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
	elastic := &batchv1beta1.ElasticConfig{Enabled: true}
	rendezvous := framework.JobSpec{DefaultRestartScope: batchv1beta1.RestartScopeRendezvous, Elastic: elastic}
	userScope := framework.JobSpec{
		DefaultRestartScope: batchv1beta1.RestartScopeRendezvous, Elastic: elastic,
		RunPolicy: batchv1beta1.RunPolicy{RestartScope: replica},
	}
	fixed := framework.JobSpec{
		DefaultRestartScope: job, RunPolicy: batchv1beta1.RunPolicy{RestartScope: batchv1beta1.RestartScopeRendezvous},
	}
	for name, tc := range map[string]struct {
		spec    framework.JobSpec
		restart batchv1beta1.RestartPolicy
		leads   bool
		failure Failure
		want    batchv1beta1.RestartScope
	}{
		"a member of a collective restarts the job": {spec: collective, failure: exited(137), want: job},
		"an independent replica restarts alone":     {spec: independent, failure: exited(1), want: replica},
		"the leader of independent replicas restarts alone": {
			spec: independent, leads: true, failure: exited(1), want: replica,
		},
		"a rendezvous member that gives up restarts the job": {spec: rendezvous, failure: exited(1), want: job},
		"a rendezvous member whose launcher gives up after a signal restarts the job": {
			spec: rendezvous, failure: Failure{ExitCode: ptr.To[int32](1), Report: trainlog.Report{ExitCode: ptr.To[int32](-9)}},
			restart: batchv1beta1.RestartPolicyExitCode, want: job,
		},
		"a rendezvous member that exits with 128 restarts alone": {
			spec: rendezvous, failure: exited(128), want: replica,
		},
		"a rendezvous member that is killed restarts alone": {spec: rendezvous, failure: exited(137), want: replica},
		"a rendezvous member that is preempted restarts alone, whatever its exit code": {
			spec: rendezvous, failure: Failure{ExitCode: ptr.To[int32](1), Ignored: true}, want: replica,
		},
		"a rendezvous member that exits because of an unhealthy device restarts the job": {
			spec: rendezvous, failure: Failure{ExitCode: ptr.To[int32](1), Reason: "DeviceUnhealthy", Ignored: true}, want: job,
		},
		"a rendezvous member that still runs with an unhealthy device restarts alone": {
			spec: rendezvous, failure: DeviceFailure(nil), want: replica,
		},
		"a rendezvous member that could not start restarts alone": {spec: rendezvous, failure: Failure{}, want: replica},
		"a rendezvous member whose init container failed restarts alone": {
			spec: rendezvous, failure: Failure{ExitCode: ptr.To[int32](1), Init: true}, want: replica,
		},
		"a rendezvous leader that is killed restarts the job": {
			spec: rendezvous, leads: true, failure: exited(137), want: job,
		},
		"a rendezvous leader that is preempted restarts the job": {
			spec: rendezvous, leads: true, failure: Failure{Ignored: true}, want: job,
		},
		"a rendezvous member that is not restarted does not restart the job": {
			spec: rendezvous, restart: batchv1beta1.RestartPolicyNever, failure: exited(1), want: replica,
		},
		"a scope that the user sets overrides the rendezvous": {
			spec: userScope, leads: true, failure: exited(1), want: replica,
		},
		"a member that is preempted restarts alone although the job is not elastic": {
			spec: fixed, failure: Failure{ExitCode: ptr.To[int32](1), Ignored: true}, want: replica,
		},
		"a member whose pod is deleted restarts alone although its policy restarts nothing": {
			spec: fixed, restart: batchv1beta1.RestartPolicyNever, failure: Failure{Reason: "Deleted", Ignored: true},
			want: replica,
		},
		"a member that is preempted and not restarted ends a job that is not elastic": {
			spec: fixed, restart: batchv1beta1.RestartPolicyNever, failure: Failure{Reason: "Preempted", Ignored: true},
			want: job,
		},
		"a member that is killed restarts a job that is not elastic": {spec: fixed, failure: exited(137), want: job},
		"a member that gives up restarts a job that is not elastic":  {spec: fixed, failure: exited(1), want: job},
		"a member that exits because of an unhealthy device restarts a job that is not elastic": {
			spec: fixed, failure: Failure{ExitCode: ptr.To[int32](1), Reason: "DeviceUnhealthy", Ignored: true}, want: job,
		},
		"a leader that is preempted restarts a job that is not elastic": {
			spec: fixed, leads: true, failure: Failure{Ignored: true}, want: job,
		},
		"a leader whose pod is deleted restarts a job that is not elastic": {
			spec: fixed, leads: true, failure: Failure{Reason: "Deleted", Ignored: true}, want: job,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restart := cmp.Or(tc.restart, onFailure)
			if got := FailureScope(tc.spec, restart, tc.leads, tc.failure); got != tc.want {
				t.Errorf("the failure restarts the %s, want the %s", got, tc.want)
			}
		})
	}
}
