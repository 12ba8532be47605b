package view

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// IsRunning reports whether the condition Running is True.
func IsRunning(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionRunning)
}

// IsPaused reports whether the job is paused and has no pods.
func IsPaused(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionPaused)
}

// HasBegunPause reports whether the controller has acted on the pause of a job: the job is paused, or its pods are
// being deleted.
func HasBegunPause(status batchv1beta1.JobStatus) bool {
	paused := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionPaused)
	return paused != nil && paused.Reason != batchv1beta1.ReasonResumed
}

// HasFailed reports whether the condition ReplicaFailure is True: a replica has failed, and the job has not recovered
// yet.
func HasFailed(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionReplicaFailure)
}

// Initialized returns the condition Initialized, or nil if it is not set.
func Initialized(status batchv1beta1.JobStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionInitialized)
}

// HasRun reports whether the status shows that the job has started at any time.
func HasRun(status batchv1beta1.JobStatus) bool {
	return status.StartTime != nil || CountsOf(status).JobAttempt()+status.BackoffCount > 0
}

// EndOf returns the condition that records the decision about the end of a job, or nil if nothing is decided. An
// earlier version of the controller recorded the decision about a success in the condition Completed.
func EndOf(status batchv1beta1.JobStatus) *metav1.Condition {
	for _, decidedBy := range []string{batchv1beta1.ConditionSuccessCriteriaMet, batchv1beta1.ConditionCompleted} {
		c := meta.FindStatusCondition(status.Conditions, decidedBy)
		if c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionFailureTarget)
}

// IsSuccess reports whether the condition that EndOf returns records a success. It is false for nil.
func IsSuccess(end *metav1.Condition) bool {
	return end != nil && end.Type != batchv1beta1.ConditionFailureTarget
}

// Stored returns a time as the API server stores it, so that a status compares equal to itself after a round trip.
func Stored(t time.Time) *metav1.Time {
	at := metav1.NewTime(t).Rfc3339Copy()
	return &at
}
