package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
)

// admitter is the kind of admission that the pods of a job need.
type admitter int

const (
	// byNobody means that the pods need no admission.
	byNobody admitter = iota
	// byPodGroup means that a Queue admits the PodGroup of the job.
	byPodGroup
	// byWorkload means that Kueue admits the Workload of the job.
	byWorkload
)

// admissionOf returns the kind of admission that the pods of a job need. A job that is being deleted needs none.
func admissionOf(job client.Object, spec framework.JobSpec) admitter {
	switch {
	case !job.GetDeletionTimestamp().IsZero():
		return byNobody
	case isForKueue(job) && (spec.RunsHere() || spec.RunsElsewhere()):
		return byWorkload
	case spec.RunsHere() && spec.T9kScheduler() != nil:
		return byPodGroup
	default:
		return byNobody
	}
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
