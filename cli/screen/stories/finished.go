package stories

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/screen"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func failed() screen.Snapshot {
	s := job("resnet50", 2, batchv1beta1.JobPhaseFailed, batchv1beta1.ReasonBackoffLimitExceeded)
	s.Job.JobStatus().BackoffCount, s.Job.JobStatus().Attempt = 3, 3
	s.Job.JobStatus().CompletionTime = before(7 * time.Minute)
	message := "replica resnet50-worker-1 failed with exit code 1 (Error): rank 8 ended with exit code 1 and " +
		"runPolicy.backoffLimit (3) allows no further restart; its last output:\n" + outOfMemory
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinished, message,
		8*time.Minute)
	condition(&s, batchv1beta1.ConditionFailed, metav1.ConditionTrue, batchv1beta1.ReasonBackoffLimitExceeded, message,
		7*time.Minute)
	replicas(&s, "worker", 2, func(i int) batchv1beta1.ReplicaPhase {
		return []batchv1beta1.ReplicaPhase{batchv1beta1.ReplicaPhaseDeleted, batchv1beta1.ReplicaPhaseFailed}[i]
	})
	failure(&s, 1, outOfMemory, 8*time.Minute)
	event(&s, "Warning", "Failed", message, 7*time.Minute)
	return s
}

func succeeded() screen.Snapshot {
	s := job("vit-b16", 2, batchv1beta1.JobPhaseSucceeded, batchv1beta1.ReasonLeaderSucceeded)
	s.Job.JobStatus().CompletionTime = before(4 * time.Minute)
	const message = "leader vit-b16-worker-0 succeeded"
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinished, message,
		5*time.Minute)
	condition(&s, batchv1beta1.ConditionCompleted, metav1.ConditionTrue, batchv1beta1.ReasonLeaderSucceeded, message,
		4*time.Minute)
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhaseSucceeded))
	reports(&s, 100, 90000, 90000, 5*time.Minute)
	event(&s, "Normal", "Completed", message, 4*time.Minute)
	return s
}
