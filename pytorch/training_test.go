package pytorch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestNewTrainingRunsTorchrunOnlyIfThereCanBeSeveralProcesses(t *testing.T) {
	t.Parallel()
	elastic := &batchv1beta1.ElasticConfig{Enabled: true, ExpectedReplicas: new(int32(1))}
	for name, tc := range map[string]struct {
		training     framework.Training
		wantTorchrun *v1beta1.TorchrunConfig
		wantCommand  []string
		wantReplicas *int32
	}{
		"one process": {
			training:    framework.Training{Nodes: 1, Processes: 1},
			wantCommand: []string{"python3"}, wantReplicas: new(int32(1)),
		},
		"several nodes": {
			training:     framework.Training{Nodes: 2, Processes: 1},
			wantTorchrun: &v1beta1.TorchrunConfig{Enabled: true, ProcPerNode: "1"}, wantReplicas: new(int32(2)),
		},
		"several processes on a node": {
			training:     framework.Training{Nodes: 1, Processes: 8},
			wantTorchrun: &v1beta1.TorchrunConfig{Enabled: true, ProcPerNode: "8"}, wantReplicas: new(int32(1)),
		},
		"an elastic job of one node": {
			training:     framework.Training{Nodes: 1, Processes: 1, Elastic: elastic},
			wantTorchrun: &v1beta1.TorchrunConfig{Enabled: true, ProcPerNode: "1", MaxRestarts: new(int32(20))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.training.Program = []string{"/code/train.py", "--epochs=2"}
			tc.training.Template.Spec.Containers = []corev1.Container{{Name: "pytorch"}}
			job := pytorch{}.NewTraining(tc.training)
			if diff := cmp.Diff(tc.wantTorchrun, job.Spec.TorchrunConfig); diff != "" {
				t.Errorf("unexpected torchrunConfig (-want +got):\n%s", diff)
			}
			want := []corev1.Container{{Name: "pytorch", Command: tc.wantCommand, Args: tc.training.Program}}
			replicas := job.Spec.ReplicaSpecs[0]
			if diff := cmp.Diff(want, replicas.Template.Spec.Containers); diff != "" {
				t.Errorf("unexpected containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantReplicas, replicas.Replicas); diff != "" {
				t.Errorf("unexpected replicas (-want +got):\n%s", diff)
			}
		})
	}
}
