package command

import (
	"cmp"

	"tensorstack.dev/jobs/cli/jobs"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// none stands for a value that a job does not have.
const none = "-"

// progressOf returns the progress of a training, such as "80% (8/10)". It returns the constant none if the training
// does not report its progress.
func progressOf(job jobs.Job) string {
	if progress := job.JobStatus().Progress; progress != nil {
		return cmp.Or(progress.Summary, none)
	}
	return none
}

// queueOf returns the name of the queue of a job: the Queue of the scheduler-controller or the LocalQueue of Kueue.
// It returns the constant none if the job has no queue.
func queueOf(job jobs.Job) string {
	if scheduler := job.Spec().T9kScheduler(); scheduler != nil {
		return cmp.Or(scheduler.Queue, none)
	}
	return cmp.Or(job.GetLabels()[kueuev1beta2.LabelQueueName], none)
}
