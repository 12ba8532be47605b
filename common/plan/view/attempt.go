package view

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Attempt identifies the attempt that a pod of a replica belongs to. Job counts how often the pods of all replicas
// were replaced together. Replica counts how often this replica alone was restarted after the last of these
// replacements. If a pod does not belong to the current attempt, its end is ignored.
type Attempt struct{ Job, Replica int32 }

// String returns the value of the attempt label of a pod: "2", or "2.1" if the replica was restarted alone.
func (a Attempt) String() string {
	if a.Replica == 0 {
		return strconv.Itoa(int(a.Job))
	}
	return fmt.Sprintf("%d.%d", a.Job, a.Replica)
}

// JobAttemptOf returns the attempt of the whole job that a pod belongs to, such as "2".
func JobAttemptOf(pod *corev1.Pod) string {
	of, _, _ := strings.Cut(pod.Labels[batchv1beta1.LabelAttempt], ".")
	return of
}

// isOfJobAttempt reports whether a pod belongs to the given attempt of the whole job.
func isOfJobAttempt(pod *corev1.Pod, jobAttempt int32) bool {
	return JobAttemptOf(pod) == strconv.Itoa(int(jobAttempt))
}
