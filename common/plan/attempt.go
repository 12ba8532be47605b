package plan

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// attempt numbers the pods of a replica: how often the pods of all replicas were replaced together, and how often the
// replica's own pod was replaced since. A pod of another attempt than the current one has been accounted for, whatever
// happens to it.
type attempt struct{ job, replica int32 }

// String returns the attempt as the label of a pod has it: "2", or "2.1" if the replica was restarted by itself.
func (a attempt) String() string {
	if a.replica == 0 {
		return strconv.Itoa(int(a.job))
	}
	return fmt.Sprintf("%d.%d", a.job, a.replica)
}

// jobAttempt returns how often the pods of all replicas were replaced together. It never falls.
func jobAttempt(status batchv1beta1.JobStatus) int32 { return status.Attempt + status.Pauses }

// isOfJobAttempt reports whether a pod belongs to an attempt of the whole job.
func isOfJobAttempt(pod *corev1.Pod, jobAttempt int32) bool {
	of, _, _ := strings.Cut(pod.Labels[batchv1beta1.LabelAttempt], ".")
	return of == strconv.Itoa(int(jobAttempt))
}
