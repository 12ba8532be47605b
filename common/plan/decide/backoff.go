package decide

import (
	"fmt"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// hasRestartLeft reports whether backoffLimit allows another restart after the failure. If the failure does not count
// towards backoffLimit, the result is true.
func (s *steps) hasRestartLeft(failure policy.Failure) bool {
	return failure.Ignored || policy.BackoffLeft(s.Job.Spec.RunPolicy, s.Counts.Backoff)
}

// countBackoff counts a failure that restarts replicas. A failure that does not count towards backoffLimit counts as
// a disruption.
func (s *steps) countBackoff(failure policy.Failure) {
	if failure.Ignored {
		s.Counts.Disruptions++
	} else {
		s.Counts.Backoff++
	}
}

// limitExceeded returns the end of the job if backoffLimit allows no restart after the failure, and nil otherwise.
func (s *steps) limitExceeded(cause view.ReplicaFailure) *ending {
	if s.hasRestartLeft(cause.Failure) {
		return nil
	}
	limit := ptr.Deref(s.Job.Spec.RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
	message := fmt.Sprintf("%s and runPolicy.backoffLimit (%d) allows no further restart", cause, limit)
	return s.endsBy(batchv1beta1.ConditionFailureTarget, batchv1beta1.ReasonBackoffLimitExceeded,
		withOutput(message, cause.Failure), &cause)
}
