package view

import batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"

// Labels returns the labels of the objects that belong to a job.
func Labels(kind, job string) map[string]string {
	return map[string]string{
		batchv1beta1.LabelJobKind:      kind,
		batchv1beta1.LabelJobName:      job,
		"app.kubernetes.io/name":       "training-job",
		"app.kubernetes.io/instance":   job,
		"app.kubernetes.io/managed-by": "tensorstack-jobs",
	}
}

// SelectorLabels returns the labels that select the pods of a job.
func SelectorLabels(kind, job string) map[string]string {
	return map[string]string{batchv1beta1.LabelJobKind: kind, batchv1beta1.LabelJobName: job}
}
