package controller

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/plan"
)

// newService returns the headless Service that gives the replicas of a job their host names. It publishes their
// addresses before they are ready, since they need each other to become ready.
func (r *Reconciler[J]) newService(job J) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:            job.GetName(),
			Namespace:       job.GetNamespace(),
			Labels:          plan.Labels(r.gvk.Kind, job.GetName()),
			OwnerReferences: []metav1.OwnerReference{r.ownerOf(job)},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 plan.SelectorLabels(r.gvk.Kind, job.GetName()),
		},
	}
}
