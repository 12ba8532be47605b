package pytorch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// onHost returns the template with hostNetwork and with the ports.
func onHost(template corev1.PodTemplateSpec, ports ...corev1.ContainerPort) corev1.PodTemplateSpec {
	template.Spec.HostNetwork = true
	template.Spec.Containers[0].Ports = ports
	return template
}

func TestWireWithHostNetwork(t *testing.T) {
	t.Parallel()
	const (
		master = "job-master-0.job.ns.svc.cluster.local"
		worker = "job-worker-0.job.ns.svc.cluster.local"
	)
	declared := func(number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{ContainerPort: number, HostPort: number, Protocol: corev1.ProtocolTCP}}
	}
	elsewhere := corev1.EnvVar{Name: "MASTER_PORT", ValueFrom: &corev1.EnvVarSource{}}
	torchrun := &v1beta1.TorchrunConfig{Enabled: true}
	restarts := &v1beta1.TorchrunConfig{Enabled: true, MaxRestarts: new(int32(1))}
	for name, tc := range map[string]struct {
		torchrun *v1beta1.TorchrunConfig
		// master and worker are the templates of one replica each.
		master, worker corev1.PodTemplateSpec
		rank           int
		attempt        int32
		wantEnv        []corev1.EnvVar
		wantPorts      []corev1.ContainerPort
	}{
		"the leader listens on the port of the job and declares it": {
			master: onHost(training()), worker: onHost(training()),
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", master,
				"WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
			wantPorts: declared(21413),
		},
		"a worker gets the port of the leader and declares no port": {
			master: onHost(training()), worker: onHost(training()), rank: 1,
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", worker,
				"WORLD_SIZE", "2", "RANK", "1", "LOCAL_RANK", "0", "NODE_RANK", "1"),
		},
		"the next attempt uses another port": {
			master: onHost(training()), worker: onHost(training()), attempt: 1,
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "23414", "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", master,
				"WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
			wantPorts: declared(23414),
		},
		"a leader without hostNetwork uses the default port": {
			master: training(), worker: onHost(training()),
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "29500", "PYTHONUNBUFFERED", "1",
				"WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
		},
		"a worker with hostNetwork gets the default port of a leader without hostNetwork": {
			master: training(), worker: onHost(training()), rank: 1,
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "29500", "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", worker,
				"WORLD_SIZE", "2", "RANK", "1", "LOCAL_RANK", "0", "NODE_RANK", "1"),
		},
		"a worker without hostNetwork gets the port of a leader with hostNetwork": {
			master: onHost(training()), worker: training(), rank: 1,
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1",
				"WORLD_SIZE", "2", "RANK", "1", "LOCAL_RANK", "0", "NODE_RANK", "1"),
		},
		"a port that the user sets overrides ours and is declared": {
			master: onHost(training(env("MASTER_PORT", "4242")...)), worker: onHost(training()),
			wantEnv: env("MASTER_ADDR", master, "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", master,
				"WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0", "MASTER_PORT", "4242"),
			wantPorts: declared(4242),
		},
		"a port that the user sets and declares is not declared again": {
			master: onHost(training(env("MASTER_PORT", "4242")...), corev1.ContainerPort{ContainerPort: 4242}),
			worker: onHost(training()),
			wantEnv: env("MASTER_ADDR", master, "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", master,
				"WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0", "MASTER_PORT", "4242"),
			wantPorts: []corev1.ContainerPort{{ContainerPort: 4242}},
		},
		"a port that only the kubelet can resolve is not declared": {
			master: onHost(training(elsewhere)), worker: onHost(training()),
			wantEnv: append(env("MASTER_ADDR", master, "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", master,
				"WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"), elsewhere),
		},
		"a leader with restarts in place declares a second port for them": {
			torchrun: restarts, master: onHost(training()), worker: onHost(training()),
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", master,
				"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
			wantPorts: append(declared(21413), declared(21414)...),
		},
		"a worker with restarts in place declares no port": {
			torchrun: restarts, master: onHost(training()), worker: onHost(training()), rank: 1,
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1", "PET_LOCAL_ADDR", worker,
				"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
		},
		"torchrun uses the port of the job and the name of its replica": {
			torchrun: torchrun, master: onHost(training()), worker: onHost(training()),
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1",
				"PET_LOCAL_ADDR", master, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
			wantPorts: append(declared(21413), declared(21414)...),
		},
		"torchrun of another replica uses the name of that replica": {
			torchrun: torchrun, master: onHost(training()), worker: onHost(training()), rank: 1,
			wantEnv: env("MASTER_ADDR", master, "MASTER_PORT", "21413", "PYTHONUNBUFFERED", "1",
				"PET_LOCAL_ADDR", worker, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := jobOf(tc.torchrun, replicas("master", 1, tc.master), replicas("worker", 1, tc.worker))
			_, got := wire(t, job, tc.rank, tc.attempt)
			main := got.Spec.Containers[0]
			if diff := cmp.Diff(tc.wantEnv, main.Env); diff != "" {
				t.Errorf("unexpected environment (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantPorts, main.Ports); diff != "" {
				t.Errorf("unexpected ports (-want +got):\n%s", diff)
			}
		})
	}
}
