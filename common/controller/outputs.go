package controller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan"
)

// Outputs reads what containers printed.
type Outputs interface {
	// Output returns the last lines that a container printed, in a size that is bounded.
	Output(ctx context.Context, namespace, pod, container string) (string, error)
}

// The outputs of at most so many pods are read for one failure, and that for so long at most. What cannot be read by
// then is left as the status of the pod has it.
const (
	maxOutputs      = 16
	outputsPatience = 5 * time.Second
)

// readOutputs puts what the containers printed in place of the end of it, which the status of their pods has, and
// reports whether it has read any. The kubelet keeps 2 KiB, and what torchrun prints at its end takes up most of that.
func readOutputs(
	ctx context.Context, outputs Outputs, pods map[string]*corev1.Pod, containers []plan.Container,
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
			continue // its node may not answer, and the right may be missing
		}
		ended := statuses[i].State.Terminated
		ended.Message = output + "\n" + ended.Message // the output may have been cut off at its end
		pods[container.Pod] = pod
		hasRead = true
	}
	return hasRead
}
