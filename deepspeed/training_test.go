package deepspeed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

func TestNewTrainingGivesTheProgramToTheLauncher(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		program []string
		want    v1beta1.RunType
	}{
		"a script": {[]string{"/code/train.py", "-v"}, v1beta1.RunType{Python: []string{"/code/train.py", "-v"}}},
		"a module": {[]string{"-m", "digits.train"}, v1beta1.RunType{Module: []string{"digits.train"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			training := framework.Training{Program: tc.program, Nodes: 2, Processes: 4}
			training.Template.Spec.Containers = []corev1.Container{{Name: "deepspeed"}}
			got := deepspeed{}.NewTraining(training).Spec
			want := v1beta1.DeepSpeedJobSpec{
				Config: &v1beta1.Config{SlotsPerWorker: new(int32(4)), Run: &tc.want},
				Worker: v1beta1.Worker{Replicas: new(int32(2)), Template: training.Template, RestartPolicy: "OnFailure"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected spec (-want +got):\n%s", diff)
			}
		})
	}
}
