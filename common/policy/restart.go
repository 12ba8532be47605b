package policy

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// retryableExitCodes are the exit codes that RestartPolicyExitCode restarts: SIGINT, SIGKILL (an out-of-memory kill among
// them), SIGUSR1, by which a program asks for a restart itself, and SIGTERM.
var retryableExitCodes = []int32{130, exitKilled, 138, 143}

// exitKilled is the exit code of a container that SIGKILL ended.
const exitKilled = 137

// Restarts says whether a replica of the given policy that ended is restarted; it succeeded if there is no failure. A
// failure that is free, or without an exit code, is not the program's own verdict, so RestartPolicyExitCode restarts it.
func Restarts(restart batchv1beta1.RestartPolicy, failure *Failure) bool {
	switch restart {
	case batchv1beta1.RestartPolicyAlways:
		return true
	case batchv1beta1.RestartPolicyOnFailure:
		return failure != nil
	case batchv1beta1.RestartPolicyExitCode:
		return failure != nil &&
			(failure.Free || failure.ExitCode == nil || slices.Contains(retryableExitCodes, *failure.ExitCode))
	default:
		return false
	}
}

// Scope returns what one failure of the job restarts.
func Scope(spec batchv1beta1.JobSpec) batchv1beta1.RestartScope {
	if spec.RunPolicy.RestartScope != "" {
		return spec.RunPolicy.RestartScope
	}
	return spec.DefaultRestartScope
}
