package deepspeed

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// onHost returns a template with hostNetwork and the given environment.
func onHost(env ...corev1.EnvVar) corev1.PodTemplateSpec {
	template := training(env...)
	template.Spec.HostNetwork = true
	return template
}

func TestWireWithHostNetwork(t *testing.T) {
	t.Parallel()
	declared := func(numbers ...int32) []corev1.ContainerPort {
		var ports []corev1.ContainerPort
		for _, n := range numbers {
			ports = append(ports, corev1.ContainerPort{ContainerPort: n, HostPort: n, Protocol: corev1.ProtocolTCP})
		}
		return ports
	}
	agent := func(subcommand string, words ...string) []string {
		return append([]string{"/t9k/agent/agent", subcommand, hosts, "--workers=2", "--slots=1"}, words...)
	}
	launcher := []string{
		"--need=deepspeed", "--need=pdsh", "--", "deepspeed", "--hostfile=/t9k/hostfile",
		"--master_addr=job-worker-0.job.ns.svc.cluster.local", "--force_multi", "--master_port=$(MASTER_PORT)", "train.py",
	}
	const addresses = "job-worker-%d.job.ns.svc.cluster.local:21414"
	usual := env("PYTHONUNBUFFERED", "1", "MASTER_PORT", "21413", "T9K_SSH_ADDRESSES", addresses)
	withOwn := onHost(env("MASTER_PORT", "4242")...)
	declaring := onHost(env("MASTER_PORT", "4242")...)
	declaring.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 4242}}
	for name, tc := range map[string]struct {
		job         *v1beta1.DeepSpeedJob
		rank        int
		wantCommand []string
		wantEnv     []corev1.EnvVar
		wantPorts   []corev1.ContainerPort
	}{
		"worker 0 declares a port for ssh and a port for the rendezvous": {
			job:         jobOf(running(), onHost()),
			wantCommand: agent("launch", slices.Concat([]string{"--port=21414"}, launcher)...),
			wantEnv:     usual, wantPorts: declared(21414, 21413),
		},
		"another worker uses and declares another port for ssh": {
			job: jobOf(running(), onHost()), rank: 1,
			wantCommand: agent("serve", "--port=21415"),
			wantEnv:     usual, wantPorts: declared(21415),
		},
		"with restarts in place, worker 0 declares a port for the controller before the ports for ssh": {
			job: jobOf(restarting(3), onHost()),
			wantCommand: agent("launch", slices.Concat([]string{
				"--port=21415", "--max-restarts=3", "--restarts-port=21414", "--attempt=job-uid-0",
			}, launcher)...),
			wantEnv: env("PYTHONUNBUFFERED", "1", "MASTER_PORT", "21413",
				"T9K_SSH_ADDRESSES", "job-worker-%d.job.ns.svc.cluster.local:21415"),
			wantPorts: declared(21415, 21414, 21413),
		},
		"with restarts in place, another worker declares only its port for ssh": {
			job: jobOf(restarting(3), onHost()), rank: 1,
			wantCommand: agent("serve", "--port=21416"),
			wantEnv: env("PYTHONUNBUFFERED", "1", "MASTER_PORT", "21413",
				"T9K_SSH_ADDRESSES", "job-worker-%d.job.ns.svc.cluster.local:21415"),
			wantPorts: declared(21416),
		},
		"in debug mode, worker 0 has the same ports": {
			job:         jobOf(running(), onHost(), debugging),
			wantCommand: agent("serve", "--port=21414"),
			wantEnv:     usual, wantPorts: declared(21414, 21413),
		},
		"the port of a worker of an elastic job does not depend on the other workers": {
			job: jobOf(running(), onHost(), elastic), rank: 1,
			wantCommand: []string{
				"/t9k/agent/agent", "serve", hosts, "--workers=3", "--slots=1", "--port=21415",
				"--min-workers=1", "--max-workers=4",
			},
			wantEnv: usual, wantPorts: declared(21415),
		},
		"a port that the user sets overrides ours and is declared": {
			job:         jobOf(running(), withOwn),
			wantCommand: agent("launch", slices.Concat([]string{"--port=21414"}, launcher)...),
			wantEnv:     env("PYTHONUNBUFFERED", "1", "T9K_SSH_ADDRESSES", addresses, "MASTER_PORT", "4242"),
			wantPorts:   declared(21414, 4242),
		},
		"a port that the user sets and declares is not declared again": {
			job:         jobOf(running(), declaring),
			wantCommand: agent("launch", slices.Concat([]string{"--port=21414"}, launcher)...),
			wantEnv:     env("PYTHONUNBUFFERED", "1", "T9K_SSH_ADDRESSES", addresses, "MASTER_PORT", "4242"),
			wantPorts:   append([]corev1.ContainerPort{{ContainerPort: 4242}}, declared(21414)...),
		},
		"disableCustomEnv does not withhold our variables": {
			job:         jobOf(running(), onHost(), disableCustomEnv),
			rank:        1,
			wantCommand: agent("serve", "--port=21415"),
			wantEnv:     usual, wantPorts: declared(21415),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template, err := wire(tc.job, tc.rank)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			main := template.Spec.Containers[0]
			if diff := cmp.Diff(tc.wantCommand, main.Command); diff != "" {
				t.Errorf("unexpected command (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantEnv, main.Env); diff != "" {
				t.Errorf("unexpected environment (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantPorts, main.Ports); diff != "" {
				t.Errorf("unexpected ports (-want +got):\n%s", diff)
			}
		})
	}
}
