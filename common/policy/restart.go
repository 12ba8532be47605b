package policy

import (
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// retryableExitCodes are the exit codes after which RestartPolicyExitCode restarts a replica. They stand for SIGINT,
// SIGKILL (including out-of-memory kills), SIGUSR1 (with which a program requests its restart) and SIGTERM.
var retryableExitCodes = []int32{130, exitKilled, 138, 143}

const (
	// exitKilled is the exit code of a container that SIGKILL ended.
	exitKilled = 128 + signalKill
	signalKill = 9
)

// isRetryable reports whether RestartPolicyExitCode restarts a replica after an exit code of its container or of the
// process that failed first. A negative code is the negated number of a signal, as launchers report it. A nil code is
// not retryable.
func isRetryable(code *int32) bool {
	if code != nil && *code < 0 {
		code = new(firstSignalCode - *code)
	}
	return code != nil && slices.Contains(retryableExitCodes, *code)
}

// Restarts reports whether the policy restarts a replica that ended. A nil failure means that the replica succeeded.
// RestartPolicyExitCode also restarts a replica after a failure that is ignored or has no exit code, because the
// program did not decide to exit. A launcher such as torchrun exits with a code of its own, so RestartPolicyExitCode
// considers two exit codes: the one of the container and the one of the process that failed first.
func Restarts(restart batchv1beta1.RestartPolicy, failure *Failure) bool {
	switch restart {
	case batchv1beta1.RestartPolicyAlways:
		return true
	case batchv1beta1.RestartPolicyOnFailure:
		return failure != nil
	case batchv1beta1.RestartPolicyExitCode:
		return failure != nil && (failure.Ignored || failure.ExitCode == nil ||
			isRetryable(failure.ExitCode) || isRetryable(failure.Report.ExitCode))
	default:
		return false
	}
}

// Scope returns the restart scope in the run policy of the job, or the default of the job if the run policy sets
// none. Unlike FailureScope, Scope ignores the rendezvous.
func Scope(spec framework.JobSpec) batchv1beta1.RestartScope {
	if spec.RunPolicy.RestartScope != "" {
		return spec.RunPolicy.RestartScope
	}
	return spec.DefaultRestartScope
}

// RestartsTogether reports whether a failure or a stall can restart all replicas of the job.
func RestartsTogether(spec framework.JobSpec) bool {
	return Scope(spec) == batchv1beta1.RestartScopeJob || spec.Rendezvous && spec.RunPolicy.RestartScope == "" ||
		spec.RunPolicy.ProgressPolicy == batchv1beta1.ProgressPolicyRestart
}

// FailureScope returns the restart scope of one failure of a replica with the given policy. The argument leads
// reports whether the replica is the leader. A rendezvous ends when its leader fails, or when a member gives up and
// exits by itself. Such a failure restarts all replicas if the policy restarts the replica and the run policy sets no
// scope. A member that was killed or disrupted can be replaced alone.
func FailureScope(
	spec framework.JobSpec, restart batchv1beta1.RestartPolicy, leads bool, failure Failure,
) batchv1beta1.RestartScope {
	endsRendezvous := spec.Rendezvous && (leads || failure.gaveUp())
	if endsRendezvous && spec.RunPolicy.RestartScope == "" && Restarts(restart, &failure) {
		return batchv1beta1.RestartScopeJob
	}
	return Scope(spec)
}

// firstSignalCode is the lowest exit code that means, by the convention of shells, that a signal ended the process.
const firstSignalCode = 128

// gaveUp reports whether the main container exited with an error by itself, and not by a signal. A launcher also
// gives up by itself if a signal ended one of its processes.
func (f Failure) gaveUp() bool {
	isOfProgram := !f.Ignored || f.isOfDevice() // a program exits with an error if it loses a device
	return isOfProgram && !f.Init && f.ExitCode != nil && *f.ExitCode < firstSignalCode
}
