package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/internal/jobtest"
)

func TestNewService(t *testing.T) {
	t.Parallel()
	owner := &metav1.ObjectMeta{Name: "job", UID: "job-uid"}
	diff(t, "Service", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "job", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, testKind)},
			Labels: map[string]string{
				"batch.tensorstack.dev/job-kind": "TestJob",
				"batch.tensorstack.dev/job-name": "job",
				"app.kubernetes.io/name":         "training-job",
				"app.kubernetes.io/instance":     "job",
				"app.kubernetes.io/managed-by":   "tensorstack-jobs",
			},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector: map[string]string{
				"batch.tensorstack.dev/job-kind": "TestJob",
				"batch.tensorstack.dev/job-name": "job",
			},
		},
	}, newService(&jobtest.NewJob().Job))
}
