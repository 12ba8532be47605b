package view

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// Counts count what has happened to a job. They never decrease, unless the status of a job is discarded.
type Counts struct {
	// Restarts, Pauses and Evictions count how often a failure, the user, or the admission ended an attempt of the
	// whole job.
	Restarts, Pauses, Evictions int32
	// Backoff counts the restarts that count towards backoffLimit. Disruptions counts the other restarts after
	// failures.
	Backoff, Disruptions int32
}

// CountsOf returns the counts that a status records.
func CountsOf(status batchv1beta1.JobStatus) Counts {
	return Counts{
		Restarts: status.Attempt, Pauses: status.Pauses, Evictions: status.Evictions,
		Backoff: status.BackoffCount, Disruptions: status.Disruptions,
	}
}

// JobAttempt returns how often the pods of all replicas were replaced together.
func (c Counts) JobAttempt() int32 { return c.Restarts + c.Pauses + c.Evictions }
