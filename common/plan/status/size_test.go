package status_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/status"
)

// To measure a status exactly is expensive. An upper bound of its size is enough to show that most statuses fit.
func TestBoundOfTasksIsAtLeastTheirSize(t *testing.T) {
	t.Parallel()
	const length = 10_000
	long := strings.Repeat("x", length)
	for name, change := range map[string]func(*batchv1beta1.ReplicaStatus){
		"the bound holds for a small replica": func(*batchv1beta1.ReplicaStatus) {},
		"the bound holds for a long name":     func(r *batchv1beta1.ReplicaStatus) { r.Name = long },
		"the bound holds for a long UID":      func(r *batchv1beta1.ReplicaStatus) { r.UID = types.UID(long) },
		"the bound holds for a long phase": func(r *batchv1beta1.ReplicaStatus) {
			r.Phase = batchv1beta1.ReplicaPhase(long)
		},
		"the bound holds for a long node":                func(r *batchv1beta1.ReplicaStatus) { r.Node = long },
		"the bound holds for a long name of a container": func(r *batchv1beta1.ReplicaStatus) { r.Containers[0].Name = long },
		"the bound holds for a long state of a container": func(r *batchv1beta1.ReplicaStatus) {
			r.Containers[0].State = batchv1beta1.ContainerState(long)
		},
		"the bound holds for a long reason that JSON escapes": func(r *batchv1beta1.ReplicaStatus) {
			r.Containers[0].Reason = strings.Repeat("\x01", length)
		},
		"the bound holds for many containers": func(r *batchv1beta1.ReplicaStatus) {
			for range 500 {
				r.Containers = append(r.Containers, r.Containers[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := batchv1beta1.ReplicaStatus{
				Name: "n", UID: "u", Phase: "p", Node: "n", Attempt: 1 << 30, RestartTime: new(jobtest.Ago(0)),
				Containers: []batchv1beta1.ContainerStatus{{Name: "c", State: "s", Reason: "r", ExitCode: new(int32(-1 << 31))}},
			}
			change(&r)
			tasks := []batchv1beta1.TaskStatus{{Type: "worker", Replicas: slices.Repeat([]batchv1beta1.ReplicaStatus{r}, 10)}}
			content, err := json.Marshal(tasks)
			if err != nil {
				t.Fatal(err)
			}
			if bound := status.BoundOf(&batchv1beta1.JobStatus{Tasks: tasks}); bound < len(content) || bound > 6*len(content) {
				t.Errorf("the bound is %d, want between 1 and 6 times the %d bytes of the tasks", bound, len(content))
			}
		})
	}
}
