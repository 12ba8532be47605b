package policy

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// retryableExitCodes are the exit codes that RestartPolicyExitCode restarts: SIGINT, SIGKILL (an out-of-memory kill among
// them), SIGUSR1, by which a program asks for a restart itself, and SIGTERM.
var retryableExitCodes = []int32{130, 137, 138, 143}

// Restarts says whether a replica of the given policy that ended as it did is restarted. A failure without an exit code is
// never the program's own verdict, so RestartPolicyExitCode restarts it.
func Restarts(restart batchv1beta1.RestartPolicy, outcome Outcome) bool {
	switch restart {
	case batchv1beta1.RestartPolicyAlways:
		return true
	case batchv1beta1.RestartPolicyOnFailure:
		return outcome.Failure != nil
	case batchv1beta1.RestartPolicyExitCode:
		return outcome.Failure != nil &&
			(outcome.Failure.ExitCode == nil || slices.Contains(retryableExitCodes, *outcome.Failure.ExitCode))
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
