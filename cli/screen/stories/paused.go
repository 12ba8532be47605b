package stories

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/screen"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func paused() screen.Snapshot {
	s := job("words", 2, batchv1beta1.JobPhasePaused, batchv1beta1.ReasonPaused)
	s.Job.JobStatus().Pauses, s.Job.JobStatus().StartTime = 1, nil
	pytorch(&s).Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonPaused, "the job is paused",
		35*time.Minute)
	condition(&s, batchv1beta1.ConditionPaused, metav1.ConditionTrue, batchv1beta1.ReasonPaused, "the job is paused",
		34*time.Minute)
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhaseDeleted))
	reports(&s, 63, 6300, 10000, 36*time.Minute)
	event(&s, "Normal", "Paused", "the job is paused", 34*time.Minute)
	return s
}
