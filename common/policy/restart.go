package policy

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// retryableExitCodes are the exit codes that RestartPolicyExitCode restarts: SIGINT, SIGKILL (an out-of-memory kill
// among them), SIGUSR1, by which a program asks for a restart itself, and SIGTERM.
var retryableExitCodes = []int32{130, exitKilled, 138, 143}

// exitKilled is the exit code of a container that SIGKILL ended.
const (
	exitKilled = 128 + signalKill
	signalKill = 9
)

// Restarts says whether a replica of the given policy that ended is restarted; it succeeded if there is no failure. A
// failure that is ignored, or without an exit code, is not the program's own verdict, so RestartPolicyExitCode restarts
// it.
func Restarts(restart batchv1beta1.RestartPolicy, failure *Failure) bool {
	switch restart {
	case batchv1beta1.RestartPolicyAlways:
		return true
	case batchv1beta1.RestartPolicyOnFailure:
		return failure != nil
	case batchv1beta1.RestartPolicyExitCode:
		return failure != nil &&
			(failure.Ignored || failure.ExitCode == nil || slices.Contains(retryableExitCodes, *failure.ExitCode))
	default:
		return false
	}
}

// Scope returns what a failure of the job restarts, unless a rendezvous depends on it; see FailureScope.
func Scope(spec framework.JobSpec) batchv1beta1.RestartScope {
	if spec.RunPolicy.RestartScope != "" {
		return spec.RunPolicy.RestartScope
	}
	return spec.DefaultRestartScope
}

// FailureScope returns what one failure restarts, of the leader or of another replica, if its policy restarts it. A
// rendezvous ends with its leader, and when a member gives up, which it says by an exit code of its own. One that was
// killed or taken away can be replaced alone.
func FailureScope(
	spec framework.JobSpec, restart batchv1beta1.RestartPolicy, leads bool, failure Failure,
) batchv1beta1.RestartScope {
	endsRendezvous := spec.Rendezvous && (leads || failure.gaveUp())
	if endsRendezvous && spec.RunPolicy.RestartScope == "" && Restarts(restart, &failure) {
		return batchv1beta1.RestartScopeJob
	}
	return Scope(spec)
}

// firstSignalCode is the least exit code of a container that a signal ended, as a shell counts them.
const firstSignalCode = 128

// gaveUp says that the main container ended with an exit code of its own.
func (f Failure) gaveUp() bool {
	return !f.Ignored && !f.Init && f.ExitCode != nil && *f.ExitCode < firstSignalCode
}
