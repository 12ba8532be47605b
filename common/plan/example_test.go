package plan_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// A decision about a new job creates its Service and its pods. The same job, observation and time always give the same
// decision.
func ExampleDecide() {
	job := view.Job{
		Namespace: "team-a", Name: "mnist", UID: "3f2a", Generation: 1,
		Spec: framework.JobSpec{
			DefaultRestartScope: batchv1beta1.RestartScopeJob,
			Roles: []framework.Role{{
				Type: "worker", Replicas: 2, RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
				Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/train:1"}},
				}},
			}},
		},
		MainContainers: []string{"main"},
		Wire:           func(framework.Peers, framework.Member, *corev1.PodTemplateSpec) error { return nil },
	}
	seenAt := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	decision := plan.Decide(job, view.Observation{}, seenAt)

	fmt.Println("phase:", decision.Status.Phase)
	fmt.Println("create the Service:", decision.CreateService)
	for _, pod := range decision.Creates {
		fmt.Println("create the pod:", pod.Name)
	}
	// Output:
	// phase: Pending
	// create the Service: true
	// create the pod: mnist-worker-0
	// create the pod: mnist-worker-1
}
