package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/plan/view"
)

// plannedJob returns a job of a framework as the input of plan.Decide.
func plannedJob[J framework.Job](
	f framework.Framework[J], kind schema.GroupVersionKind, settings view.Settings, job J,
) view.Job {
	return view.Job{
		Kind:           kind,
		Namespace:      job.GetNamespace(),
		Name:           job.GetName(),
		UID:            job.GetUID(),
		Generation:     job.GetGeneration(),
		Deleting:       !job.GetDeletionTimestamp().IsZero(),
		Created:        job.GetCreationTimestamp().Time,
		Spec:           f.JobSpec(job),
		IsCopy:         kueue.IsCopy(job),
		Status:         *job.JobStatus(),
		Settings:       settings,
		MainContainers: f.MainContainers(),
		Wire: func(peers framework.Peers, member framework.Member, template *corev1.PodTemplateSpec) error {
			return f.Wire(job, peers, member, template)
		},
	}
}
