package v1beta1_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// This example builds a job that a program can create with any Kubernetes client.
func ExamplePyTorchTrainingJob() {
	job := pytorchv1beta1.PyTorchTrainingJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: pytorchv1beta1.GroupVersion.String(), Kind: pytorchv1beta1.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "mnist"},
		Spec: pytorchv1beta1.PyTorchTrainingJobSpec{
			TorchrunConfig: &pytorchv1beta1.TorchrunConfig{Enabled: true},
			ReplicaSpecs: []pytorchv1beta1.ReplicaSpec{{
				Type:          "worker",
				Replicas:      new(int32(4)),
				RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "pytorch", Image: "registry.example.com/train:1", Args: []string{"train.py"}},
				}}},
			}},
		},
	}
	spec, err := yaml.Marshal(job.Spec.ReplicaSpecs[0].Template.Spec.Containers)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %s has %d replicas of\n%s", job.Kind, job.Name, *job.Spec.ReplicaSpecs[0].Replicas, spec)
	// Output:
	// PyTorchTrainingJob mnist has 4 replicas of
	// - args:
	//   - train.py
	//   image: registry.example.com/train:1
	//   name: pytorch
	//   resources: {}
}

// This example reads from the conditions of a job why it failed.
func ExamplePyTorchTrainingJob_JobStatus() {
	var job pytorchv1beta1.PyTorchTrainingJob // as a client has read it
	job.Status.Phase = batchv1beta1.JobPhaseFailed
	job.Status.Conditions = []metav1.Condition{{
		Type: batchv1beta1.ConditionFailed, Status: metav1.ConditionTrue,
		Reason: batchv1beta1.ReasonBackoffLimitExceeded, Message: "mnist-worker-1 failed with exit code 1",
	}}

	status := job.JobStatus()
	if failed := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionFailed); status.Finished() &&
		failed != nil {
		fmt.Printf("%s: %s\n", failed.Reason, failed.Message)
	}
	// Output:
	// BackoffLimitExceeded: mnist-worker-1 failed with exit code 1
}
