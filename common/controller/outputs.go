package controller

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// Outputs reads the output of containers.
type Outputs interface {
	// Output returns the last lines of the output of a container. Their size is bounded.
	Output(ctx context.Context, namespace, pod, container string) (string, error)
}

const (
	// maxOutputs is the maximum number of containers that one call of readOutputs considers.
	maxOutputs = 16
	// outputsPatience is how long one call of readOutputs can take. After this time, readOutputs reads no more outputs,
	// and the remaining containers keep their termination messages.
	outputsPatience = 5 * time.Second
)

// readOutputs reads the output of containers that have ended, and reports whether it has read any output. If it has
// read the output of a pod, it replaces the pod in the map pods with a copy. In the copy, the termination message of
// the container begins with the output. The termination message that the kubelet writes is not enough: it contains at
// most 2 KiB of the output, and the last lines of torchrun fill most of that.
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
		status := policy.ContainerStatus(pod.Status.ContainerStatuses, container.Name)
		if status == nil || status.State.Terminated == nil {
			continue
		}
		output, err := outputs.Output(ctx, pod.Namespace, pod.Name, container.Name)
		if err != nil || output == "" {
			continue // the node might not respond, or the permission might be missing
		}
		ended := status.State.Terminated
		if !strings.HasSuffix(strings.TrimSpace(output), strings.TrimSpace(ended.Message)) { // the output lacks its end
			output += "\n" + ended.Message
		}
		ended.Message = output
		pods[container.Pod] = pod
		hasRead = true
	}
	return hasRead
}
