package tensorflow

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// onHost returns the template with hostNetwork.
func onHost(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	template.Spec.HostNetwork = true
	return template
}

func TestWireWithHostNetwork(t *testing.T) {
	t.Parallel()
	const (
		chief, worker = v1beta1.ReplicaTypeChief, v1beta1.ReplicaTypeWorker
		ps, evaluator = v1beta1.ReplicaTypePS, v1beta1.ReplicaTypeEvaluator
		domain        = ".job.ns.svc.cluster.local"
	)
	declared := func(number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{ContainerPort: number, HostPort: number, Protocol: corev1.ProtocolTCP}}
	}
	all := jobOf(
		replicas(chief, 1, onHost(training())),
		replicas(worker, 2, onHost(training())),
		replicas(evaluator, 1, onHost(training())),
	)
	clusterOfAll := map[string][]string{
		"chief":  {"job-chief-0" + domain + ":21413"},
		"worker": {"job-worker-0" + domain + ":21414", "job-worker-1" + domain + ":21415"},
	}
	mixed := jobOf(replicas(worker, 2, onHost(training())), replicas(ps, 1, training()))
	clusterOfMixed := map[string][]string{
		"worker": {"job-worker-0" + domain + ":21413", "job-worker-1" + domain + ":21414"},
		"ps":     {"job-ps-0" + domain + ":2222"},
	}
	own := []corev1.ContainerPort{{Name: "tfjob-port", ContainerPort: 4444}}
	for name, tc := range map[string]struct {
		job         *v1beta1.TensorFlowTrainingJob
		rank        int
		wantCluster map[string][]string
		wantPorts   []corev1.ContainerPort
	}{
		"each replica listens on a separate port and declares it": {
			job: all, rank: 0, wantCluster: clusterOfAll, wantPorts: declared(21413),
		},
		"replicas of the same type have different ports": {
			job: all, rank: 2, wantCluster: clusterOfAll, wantPorts: declared(21415),
		},
		"an evaluator declares no port": {job: all, rank: 3, wantCluster: clusterOfAll},
		"types with and without hostNetwork can be mixed": {
			job: mixed, rank: 1, wantCluster: clusterOfMixed, wantPorts: declared(21414),
		},
		"a type without hostNetwork declares no port": {job: mixed, rank: 2, wantCluster: clusterOfMixed},
		"a port that the user declares overrides ours and is not declared again": {
			job:         jobOf(replicas(worker, 2, onHost(listening(own...)))),
			wantCluster: map[string][]string{"worker": {"job-worker-0" + domain + ":4444", "job-worker-1" + domain + ":4444"}},
			wantPorts:   own,
		},
		"a single replica declares no port": {job: jobOf(replicas(worker, 1, onHost(training())))},
		"a replica with a TF_CONFIG of the user declares no port": {
			job: jobOf(replicas(worker, 2, onHost(training(env("TF_CONFIG", "{}")...)))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, template, err := wire(tc.job, tc.rank)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			main := mainContainer(template.Spec)
			if diff := cmp.Diff(tc.wantPorts, main.Ports); diff != "" {
				t.Errorf("unexpected ports (-want +got):\n%s", diff)
			}
			var config tfConfig
			for _, e := range main.Env {
				if e.Name == "TF_CONFIG" {
					if config, err = parse(e.Value); err != nil {
						t.Fatalf("TF_CONFIG is %q: %v", e.Value, err)
					}
				}
			}
			if diff := cmp.Diff(tc.wantCluster, config.Cluster); diff != "" {
				t.Errorf("unexpected cluster (-want +got):\n%s", diff)
			}
		})
	}
}
