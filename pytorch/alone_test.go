package pytorch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
)

func TestReplicasThatTrainAloneAreNoticed(t *testing.T) {
	t.Parallel()
	const (
		torchrun = "the number of replicas has no effect on the training, since torchrun of type worker gets no number " +
			"of replicas, and each replica trains alone: use spec.torchrunConfig, or pass --nnodes"
		accelerate = "the number of replicas has no effect on the training, since accelerate launch of type worker gets " +
			"no number of replicas, and each replica trains alone: use spec.torchrunConfig instead, or pass " +
			"--num_machines=$(WORLD_SIZE), --machine_rank=$(RANK), --main_process_ip=$(MASTER_ADDR) and " +
			"--main_process_port=$(MASTER_PORT)"
	)
	for name, tc := range map[string]struct {
		command  []string
		env      []corev1.EnvVar
		envFrom  []corev1.EnvFromSource
		replicas int32
		want     string
	}{
		"accelerate launch without the number of machines": {
			command: []string{"accelerate", "launch", "--multi_gpu", "train.py"}, want: accelerate,
		},
		"accelerate launch in a script": {
			command: []string{"bash", "-c", "cd /code && accelerate launch train.py"}, want: accelerate,
		},
		"accelerate launch knows the number of machines": {
			command: []string{"accelerate", "launch", "--num-machines=2", "train.py"},
		},
		"accelerate launch reads a file": {command: []string{"accelerate", "launch", "--config_file", "a.yaml", "train.py"}},
		"torchrun without the number of nodes": {
			command: []string{"/usr/bin/torchrun", "--nproc_per_node=$(GPUS)", "train.py"}, want: torchrun,
		},
		"torchrun as a module": {command: []string{"python3", "-m", "torch.distributed.run", "train.py"}, want: torchrun},
		"torchrun knows the number of nodes": {
			command: []string{"torchrun", "--nnodes=$(WORLD_SIZE)", "--node_rank=$(RANK)", "train.py"},
		},
		"torchrun is told to train alone": {command: []string{"torchrun", "--standalone", "train.py"}},
		"a variable can have the options": {command: []string{"sh", "-c", "torchrun $FLAGS train.py"}},
		"PET_NNODES is the number of nodes": {
			command: []string{"torchrun", "train.py"}, env: []corev1.EnvVar{{Name: "PET_NNODES"}},
		},
		"a ConfigMap can have the options": {
			command: []string{"torchrun", "train.py"}, envFrom: []corev1.EnvFromSource{{}},
		},
		"a script exports the number of nodes": {
			command: []string{"bash", "-c", "export PET_NNODES=$WORLD_SIZE; torchrun train.py"},
		},
		"accelerate launch has the rank of the machine": {
			command: []string{"accelerate", "launch", "--machine_rank=$(RANK)", "train.py"},
		},
		"torchrun is an argument": {
			command: []string{"python3", "train.py", "--launcher", "torchrun", "--output", "/data/torchrun", "--epochs=3"},
		},
		"torchrun in a script with variables": {
			command: []string{"bash", "-lc", "set -e\nOMP_NUM_THREADS=1 torchrun train.py"}, want: torchrun,
		},
		"a single replica trains alone":         {command: []string{"torchrun", "train.py"}, replicas: 1},
		"a program reads the rank of a replica": {command: []string{"python3", "train.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "pytorch", Command: tc.command[:1], Args: tc.command[1:], Env: tc.env, EnvFrom: tc.envFrom,
			}}}}
			if tc.replicas == 0 {
				tc.replicas = 2
			}
			roles := []framework.Role{{Type: "worker", Replicas: tc.replicas, Template: &template}}
			if diff := cmp.Diff(tc.want, noticeAlone(roles)); diff != "" {
				t.Errorf("unexpected notice (-want +got):\n%s", diff)
			}
		})
	}
}
