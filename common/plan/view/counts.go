package view

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// Counts are the numbers of restarts, pauses and evictions of a job. They never decrease, unless the status of the
// job is discarded.
type Counts struct {
	// Restarts, Pauses and Evictions count the attempts of the whole job that have ended: Restarts because of a
	// failure, Pauses because the user paused the job, and Evictions because the admission was withdrawn or a
	// ResourceQuota had no room.
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
