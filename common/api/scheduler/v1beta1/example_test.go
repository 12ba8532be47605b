package v1beta1_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// This example creates a Queue with a quota of 8 GPUs for the namespaces of a team.
func ExampleQueue() {
	queue := schedulerv1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "team-a"},
		Spec: schedulerv1beta1.QueueSpec{
			Quota: &schedulerv1beta1.QueueQuota{
				Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
		},
	}
	spec, err := yaml.Marshal(queue.Spec)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(spec))
	// Output:
	// namespaceSelector:
	//   matchLabels:
	//     team: a
	// quota:
	//   requests:
	//     nvidia.com/gpu: "8"
}
