package view

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Attempt identifies the attempt that a pod of a replica belongs to. Job counts how often the pods of all replicas were
// replaced together. Replica counts how often the pod of this replica was replaced since then. A pod of another attempt
// than the current one is already accounted for, however it ends.
type Attempt struct{ Job, Replica int32 }

// String returns the value of the attempt label of a pod: "2", or "2.1" if the replica was restarted alone.
func (a Attempt) String() string {
	if a.Replica == 0 {
		return strconv.Itoa(int(a.Job))
	}
	return fmt.Sprintf("%d.%d", a.Job, a.Replica)
}

// Counts count what has happened to a job. They never decrease.
type Counts struct {
	// Restarts, Pauses and Evictions count how often a failure, the user, or the admission ended an attempt of the
	// whole job.
	Restarts, Pauses, Evictions int32
	// Failures counts the restarts that count towards backoffLimit. Disruptions counts the others.
	Failures, Disruptions int32
}

// CountsOf returns the counts that a status records.
func CountsOf(status batchv1beta1.JobStatus) Counts {
	return Counts{
		Restarts: status.Attempt, Pauses: status.Pauses, Evictions: status.Evictions,
		Failures: status.BackoffCount, Disruptions: status.Disruptions,
	}
}

// JobAttempt returns how often the pods of all replicas were replaced together.
func (c Counts) JobAttempt() int32 { return c.Restarts + c.Pauses + c.Evictions }

// isOfJobAttempt reports whether a pod belongs to the given attempt of the whole job.
func isOfJobAttempt(pod *corev1.Pod, jobAttempt int32) bool {
	of, _, _ := strings.Cut(pod.Labels[batchv1beta1.LabelAttempt], ".")
	return of == strconv.Itoa(int(jobAttempt))
}
