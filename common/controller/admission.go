package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
)

// needsWorkload reports whether the pods of a job need a Workload that Kueue admits. A job that is being deleted needs
// none.
func needsWorkload(job client.Object, spec framework.JobSpec) bool {
	return job.GetDeletionTimestamp().IsZero() && isForKueue(job) && (spec.RunsHere() || spec.RunsElsewhere())
}

// needsPodGroup reports whether the pods of a job need a PodGroup that a Queue admits. A job that is being deleted
// needs none.
func needsPodGroup(job client.Object, spec framework.JobSpec) bool {
	return job.GetDeletionTimestamp().IsZero() && !isForKueue(job) && spec.RunsHere() && spec.T9kScheduler() != nil
}

// isForKueue reports whether the job has the label of a LocalQueue, which means that Kueue must admit it.
func isForKueue(job client.Object) bool { return job.GetLabels()[kueuev1beta2.LabelQueueName] != "" }

// changeAdmission applies a change to the Workload or the PodGroup of the job.
func (r *Reconciler[J]) changeAdmission(ctx context.Context, job J, change view.Change) error {
	if isForKueue(job) {
		return r.workloads.Apply(ctx, job, change)
	}
	return r.podGroups.Apply(ctx, job, change)
}
