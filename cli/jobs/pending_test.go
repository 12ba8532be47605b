package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/jobs"
)

func TestWhyPending(t *testing.T) {
	t.Parallel()
	waiting := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}
	}
	running := func(name string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{},
		}}}
	}
	type why struct{ Reason, Message string }
	tests := map[string]struct {
		status corev1.PodStatus
		want   why
	}{
		"a pod that runs needs no reason": {
			status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: waiting("CrashLoopBackOff", "")},
		},
		"nobody has given a reason yet": {status: corev1.PodStatus{Phase: corev1.PodPending}},
		"the scheduler has found no node": {
			status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: "0/3 nodes are available",
			}}},
			want: why{"Unschedulable", "0/3 nodes are available"},
		},
		"the scheduler does not find the state of a plugin": {
			status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: `0/3 nodes are available: persistentvolumeclaim "data" not found. not found`,
			}}},
			want: why{"Unschedulable", `0/3 nodes are available: persistentvolumeclaim "data" not found.`},
		},
		"the image of an init container cannot be pulled": {
			status: corev1.PodStatus{
				Phase: corev1.PodPending, InitContainerStatuses: waiting("ImagePullBackOff", "not found"),
				ContainerStatuses: waiting("PodInitializing", ""),
			},
			want: why{"ImagePullBackOff", "not found"},
		},
		"an init container runs": {
			status: corev1.PodStatus{
				Phase: corev1.PodPending, InitContainerStatuses: running("wait-for-peers"),
				ContainerStatuses: waiting("PodInitializing", ""),
			},
			want: why{"init container wait-for-peers", ""},
		},
		"a sidecar that runs does not hold the pod up": {
			status: corev1.PodStatus{
				Phase: corev1.PodPending, InitContainerStatuses: running("progress"),
				ContainerStatuses: waiting("CreateContainerError", "no user"),
			},
			want: why{"CreateContainerError", "no user"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Status: test.status, Spec: corev1.PodSpec{InitContainers: []corev1.Container{
				{Name: "progress", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Name: "wait-for-peers"},
			}}}
			reason, message := jobs.WhyPending(pod)
			if diff := cmp.Diff(test.want, why{reason, message}); diff != "" {
				t.Errorf("the reason differs (-want +got):\n%s", diff)
			}
		})
	}
}
