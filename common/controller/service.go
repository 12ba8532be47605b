package controller

import (
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
)

// newService returns the headless Service that provides the DNS names of the replicas of a job. It publishes addresses
// of replicas that are not ready, because replicas need each other to become ready.
func newService(job *view.Job) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: job.MetaOfOwned(),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 view.SelectorLabels(job.Kind.Kind, job.Name),
		},
	}
}
