package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func waits(container, reason string) corev1.ContainerStatus {
	return waitsFor(container, reason, "message of the kubelet")
}

func waitsFor(container, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}
}

func TestWhyPending(t *testing.T) {
	t.Parallel()
	scheduled := func(pod *corev1.Pod, status corev1.ConditionStatus) *corev1.Pod {
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: status, Message: "0/3 nodes are available"},
		}
		return pod
	}
	withInit := func(pod *corev1.Pod, status corev1.ContainerStatus) *corev1.Pod {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
		return pod
	}
	for name, tc := range map[string]struct {
		pod         *corev1.Pod
		wantReason  string
		wantMessage string
	}{
		"a new pod without conditions is starting": {
			pod:         podIn(corev1.PodPending),
			wantReason:  batchv1beta1.ReasonPending,
			wantMessage: "pod is starting",
		},
		"a pod whose claim is missing is unschedulable": {
			pod: func() *corev1.Pod {
				pod := scheduled(podIn(corev1.PodPending), corev1.ConditionFalse)
				pod.Status.Conditions[0].Message = `0/3 nodes are available: persistentvolumeclaim "data" not found. not found`
				return pod
			}(),
			wantReason:  batchv1beta1.ReasonUnschedulable,
			wantMessage: `pod cannot be scheduled: 0/3 nodes are available: persistentvolumeclaim "data" not found.`,
		},
		"a pod that fits on no node is unschedulable": {
			pod:         scheduled(podIn(corev1.PodPending), corev1.ConditionFalse),
			wantReason:  batchv1beta1.ReasonUnschedulable,
			wantMessage: "pod cannot be scheduled: 0/3 nodes are available",
		},
		"a pod that was scheduled is starting": {
			pod:         scheduled(podIn(corev1.PodPending), corev1.ConditionTrue),
			wantReason:  batchv1beta1.ReasonPending,
			wantMessage: "pod is starting",
		},
		"other false conditions of a pod do not count": {
			pod: conditioned(podIn(corev1.PodPending),
				corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "not ready"}),
			wantReason:  batchv1beta1.ReasonPending,
			wantMessage: "pod is starting",
		},
		"a container that is being created does not hide one that cannot start": {
			pod: podIn(corev1.PodPending, waits("sidecar", "ContainerCreating"),
				waitsFor("main", "ErrImagePull", "gone")),
			wantReason:  batchv1beta1.ReasonImagePull,
			wantMessage: "container main of pod cannot start: ErrImagePull: gone",
		},
		"a long message is truncated": {
			pod:         podIn(corev1.PodPending, waitsFor("main", "ErrImagePull", strings.Repeat("x", 5000))),
			wantReason:  batchv1beta1.ReasonImagePull,
			wantMessage: "container main of pod cannot start: ErrImagePull: " + strings.Repeat("x", 1021) + "...",
		},
		"a pod whose containers are being created is starting": {
			pod:         podIn(corev1.PodPending, waits("main", "ContainerCreating")),
			wantReason:  batchv1beta1.ReasonPending,
			wantMessage: "pod is starting",
		},
		"a pod whose init containers run is starting": {
			pod:         withInit(podIn(corev1.PodPending, waits("main", "PodInitializing")), runs("fetch")),
			wantReason:  batchv1beta1.ReasonPending,
			wantMessage: "pod is starting",
		},
		"an image that cannot be pulled is reported": {
			pod:         podIn(corev1.PodPending, runs("sidecar"), waits("main", "ImagePullBackOff")),
			wantReason:  batchv1beta1.ReasonImagePull,
			wantMessage: "container main of pod cannot start: ImagePullBackOff: message of the kubelet",
		},
		"an invalid image name is reported": {
			pod:         podIn(corev1.PodPending, waits("main", "InvalidImageName")),
			wantReason:  batchv1beta1.ReasonImagePull,
			wantMessage: "container main of pod cannot start: InvalidImageName: message of the kubelet",
		},
		"a missing Secret is reported": {
			pod:         podIn(corev1.PodPending, waits("main", "CreateContainerConfigError")),
			wantReason:  batchv1beta1.ReasonContainerConfig,
			wantMessage: "container main of pod cannot start: CreateContainerConfigError: message of the kubelet",
		},
		"a command that is not in the image is reported": {
			pod:         podIn(corev1.PodPending, waits("main", "RunContainerError")),
			wantReason:  batchv1beta1.ReasonContainerConfig,
			wantMessage: "container main of pod cannot start: RunContainerError: message of the kubelet",
		},
		"an init container that cannot start is reported first": {
			pod: withInit(podIn(corev1.PodPending, waits("main", "CreateContainerError")),
				waits("fetch", "ErrImagePull")),
			wantReason:  batchv1beta1.ReasonImagePull,
			wantMessage: "container fetch of pod cannot start: ErrImagePull: message of the kubelet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason, message := WhyPending(tc.pod)
			if reason != tc.wantReason || message != tc.wantMessage {
				t.Errorf("WhyPending is %q, %q; want %q, %q", reason, message, tc.wantReason, tc.wantMessage)
			}
		})
	}
}
