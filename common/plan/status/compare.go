package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// IsSame reports whether two statuses are equal. It compares replicas without reflection, because there can be
// many.
func IsSame(a, b batchv1beta1.JobStatus) bool {
	if !slices.EqualFunc(a.Tasks, b.Tasks, isSameTask) {
		return false
	}
	a.Tasks, b.Tasks = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

func isSameTask(a, b batchv1beta1.TaskStatus) bool {
	return a.Type == b.Type && a.RestartCount == b.RestartCount && slices.EqualFunc(a.Replicas, b.Replicas, isSameReplica)
}

func isSameReplica(a, b batchv1beta1.ReplicaStatus) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Phase == b.Phase && a.Node == b.Node && a.Attempt == b.Attempt &&
		a.RestartTime.Equal(b.RestartTime) && slices.EqualFunc(a.Containers, b.Containers, isSameContainer)
}

func isSameContainer(a, b batchv1beta1.ContainerStatus) bool {
	return a.Name == b.Name && a.State == b.State && a.Reason == b.Reason && ptr.Equal(a.ExitCode, b.ExitCode)
}
