package status_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/status"
)

// IsSame compares replicas field by field. If it left out a field, the controller would not write a change of this
// field alone.
func TestIsSameComparesEachField(t *testing.T) {
	t.Parallel()
	full := func() batchv1beta1.JobStatus {
		return batchv1beta1.JobStatus{
			Tasks: []batchv1beta1.TaskStatus{{Type: "worker", RestartCount: 1, Replicas: []batchv1beta1.ReplicaStatus{{
				Name: "job-worker-0", UID: "uid", Phase: batchv1beta1.ReplicaPhaseFailed, Node: "node", Attempt: 1,
				RestartTime: new(jobtest.Ago(time.Minute)),
				Containers: []batchv1beta1.ContainerStatus{{
					Name: jobtest.MainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: new(int32(1)), Reason: "Error",
				}},
			}}}},
		}
	}
	jobtest.Diff(t, "whether equal statuses are the same", true, status.IsSame(full(), full()))
	for name, part := range map[string]func(*batchv1beta1.JobStatus) any{
		"task":      func(s *batchv1beta1.JobStatus) any { return &s.Tasks[0] },
		"replica":   func(s *batchv1beta1.JobStatus) any { return &s.Tasks[0].Replicas[0] },
		"container": func(s *batchv1beta1.JobStatus) any { return &s.Tasks[0].Replicas[0].Containers[0] },
	} {
		fields := reflect.TypeOf(part(new(full()))).Elem()
		for i := range fields.NumField() {
			t.Run(name+" without "+fields.Field(i).Name, func(t *testing.T) {
				t.Parallel()
				lacking := full()
				field := reflect.ValueOf(part(&lacking)).Elem().Field(i)
				if field.IsZero() {
					t.Fatal("the test does not set this field: add it to the full status")
				}
				field.SetZero()
				jobtest.Diff(t, "whether the statuses are the same", false, status.IsSame(full(), lacking))
			})
		}
	}
}

// An empty list equals a missing one, and the zone of a time does not matter.
func TestIsSameIsSemantic(t *testing.T) {
	t.Parallel()
	of := func(r batchv1beta1.ReplicaStatus) batchv1beta1.JobStatus {
		return batchv1beta1.JobStatus{
			Tasks: []batchv1beta1.TaskStatus{{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{r}}},
		}
	}
	local := metav1.NewTime(jobtest.Now.In(time.FixedZone("east", 3600)))
	a := of(batchv1beta1.ReplicaStatus{RestartTime: &local})
	b := of(batchv1beta1.ReplicaStatus{
		RestartTime: new(metav1.NewTime(jobtest.Now)), Containers: []batchv1beta1.ContainerStatus{},
	})
	jobtest.Diff(t, "whether the statuses are the same", true, status.IsSame(a, b))
}
