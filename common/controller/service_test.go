package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/internal/jobtest"
)

func TestNewService(t *testing.T) {
	t.Parallel()
	diff(t, "Service", &corev1.Service{
		ObjectMeta: wantOwnedMeta(),
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
