package command

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// none stands for a value that a job does not have.
const none = "-"

// progressOf returns how far a training is, such as "80% (8/10)", or none if it does not report it.
func progressOf(job jobs.Job) string {
	if progress := job.JobStatus().Progress; progress != nil {
		return cmp.Or(progress.Summary, none)
	}
	return none
}

// queueOf returns the queue of a job, or none: the Queue of the scheduler-controller or the LocalQueue of Kueue.
func queueOf(job jobs.Job) string {
	if scheduler := job.Spec().T9kScheduler(); scheduler != nil {
		return cmp.Or(scheduler.Queue, none)
	}
	return cmp.Or(job.GetLabels()[kueuev1beta2.LabelQueueName], none)
}

// messageOf returns the message of the condition that explains the phase of a job.
func messageOf(job jobs.Job) string {
	status := job.JobStatus()
	for _, c := range status.Conditions {
		if c.Reason == status.Reason && c.Message != "" {
			return c.Message
		}
	}
	if running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning); running != nil {
		return running.Message
	}
	return ""
}
