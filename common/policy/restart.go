package policy

import (
	"cmp"
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
// none. If it is Rendezvous, FailureScope returns the scope of one failure.
func Scope(spec framework.JobSpec) batchv1beta1.RestartScope {
	return cmp.Or(spec.RunPolicy.RestartScope, spec.DefaultRestartScope)
}

// RestartsTogether reports whether a failure or a stall can restart all replicas of the job.
func RestartsTogether(spec framework.JobSpec) bool {
	return Scope(spec) != batchv1beta1.RestartScopeReplica ||
		spec.RunPolicy.ProgressPolicy == batchv1beta1.ProgressPolicyRestart
}

// FailureScope returns the restart scope of one failure of a replica with the given policy: Job or Replica. The
// argument leads reports whether the replica is the leader. A rendezvous ends when its leader fails, or when a member
// gives up and exits by itself. Such a failure restarts all replicas of a job with the scope Rendezvous. Another
// failure restarts the replica alone:
//
//   - If the job is elastic, the other replicas train without it until then, and also if it is not restarted.
//   - If the job is not elastic, they wait for it. So it must be a failure that the program did not cause, and after
//     which the replica gets a new pod.
func FailureScope(
	spec framework.JobSpec, restart batchv1beta1.RestartPolicy, leads bool, failure Failure,
) batchv1beta1.RestartScope {
	scope := Scope(spec)
	if scope != batchv1beta1.RestartScopeRendezvous {
		return scope
	}
	endsRendezvous, isRestarted := leads || failure.gaveUp(), Restarts(restart, &failure)
	isAlone := !endsRendezvous || !isRestarted
	if spec.Elastic == nil {
		isAlone = !endsRendezvous && failure.Ignored && (isRestarted || failure.Reason == batchv1beta1.ReasonDeleted)
	}
	if isAlone {
		return batchv1beta1.RestartScopeReplica
	}
	return batchv1beta1.RestartScopeJob
}

// firstSignalCode is the lowest exit code that means, by the convention of shells, that a signal ended the process.
const firstSignalCode = 128

// gaveUp reports whether the main container exited with an error by itself, and not by a signal. A launcher also
// gives up by itself if a signal ended one of its processes.
func (f Failure) gaveUp() bool {
	isOfProgram := !f.Ignored || f.isOfDevice() // a program exits with an error if it loses a device
	return isOfProgram && !f.Init && f.ExitCode != nil && *f.ExitCode < firstSignalCode
}
