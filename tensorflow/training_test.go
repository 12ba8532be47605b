package tensorflow

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

func TestNewTrainingRunsPythonInEachReplica(t *testing.T) {
	t.Parallel()
	training := framework.Training{Program: []string{"/code/train.py"}, Nodes: 2, Processes: 1}
	training.Template.Spec.Containers = []corev1.Container{{Name: "tensorflow"}}
	got := tensorflow{}.NewTraining(training).Spec.ReplicaSpecs
	want := []v1beta1.ReplicaSpec{{
		Type: "worker", Replicas: new(int32(2)), RestartPolicy: "OnFailure",
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "tensorflow", Command: []string{"python3"}, Args: []string{"/code/train.py"},
		}}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected replicas (-want +got):\n%s", diff)
	}
}
