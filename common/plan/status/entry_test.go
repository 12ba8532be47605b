package status_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/status"
)

func TestContainerStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state corev1.ContainerState
		want  batchv1beta1.ContainerStatus
	}{
		"a waiting container has a reason": {
			state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
			want:  batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerWaiting, Reason: "ContainerCreating"},
		},
		"a running container has no reason": {
			state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			want:  batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerRunning},
		},
		"a terminated container has an exit code and a reason": {
			state: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			want: batchv1beta1.ContainerStatus{
				Name: "c", State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](137), Reason: "OOMKilled",
			},
		},
		"a container without a state is waiting": {
			want: batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerWaiting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobtest.Diff(t, "status", tc.want, status.ContainerStatus(corev1.ContainerStatus{Name: "c", State: tc.state}))
		})
	}
}
