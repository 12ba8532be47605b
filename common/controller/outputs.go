package controller

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
)

// Outputs reads the output of containers.
type Outputs interface {
	// Output returns the last lines of the output of a container. Their size is bounded.
	Output(ctx context.Context, namespace, pod, container string) (string, error)
}

const (
	// maxOutputs is how many outputs are read for one failure.
	maxOutputs = 16
	// outputsPatience is how long reading all outputs of one failure can take. Outputs that were not read by then stay
	// as they are in the status of the pod.
	outputsPatience = 5 * time.Second
)

// readOutputs replaces pods by copies whose termination messages begin with the output of the container. It reports
// whether it read any output. The termination message that the kubelet writes is not enough: it has only 2 KiB, and the
// last lines of torchrun fill most of them.
func readOutputs(
	ctx context.Context, outputs Outputs, pods map[string]*corev1.Pod, containers []view.Container,
) bool {
	if outputs == nil || len(containers) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, outputsPatience)
	defer cancel()
	hasRead := false
	for _, container := range containers[:min(len(containers), maxOutputs)] {
		pod := pods[container.Pod].DeepCopy()
		statuses := pod.Status.ContainerStatuses
		i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == container.Name })
		if i < 0 || statuses[i].State.Terminated == nil {
			continue
		}
		output, err := outputs.Output(ctx, pod.Namespace, pod.Name, container.Name)
		if err != nil || output == "" {
			continue // the node might not respond, or the permission might be missing
		}
		ended := statuses[i].State.Terminated
		if !strings.HasSuffix(strings.TrimSpace(output), strings.TrimSpace(ended.Message)) { // its end is cut off
			output += "\n" + ended.Message
		}
		ended.Message = output
		pods[container.Pod] = pod
		hasRead = true
	}
	return hasRead
}
