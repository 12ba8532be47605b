package pytorch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func replicas(roleType string, n int32, template corev1.PodTemplateSpec) v1beta1.ReplicaSpec {
	return v1beta1.ReplicaSpec{Type: roleType, Replicas: &n, Template: template}
}

// training returns a template whose main container has the given environment.
func training(env ...corev1.EnvVar) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "pytorch", Command: []string{"python"}, Args: []string{"train.py", "--epochs=3"}, Env: env,
	}}}}
}

// withDevices adds devices to the main container of a template.
func withDevices(template corev1.PodTemplateSpec, n int64) corev1.PodTemplateSpec {
	template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI),
	}
	return template
}

func jobOf(torchrun *v1beta1.TorchrunConfig, specs ...v1beta1.ReplicaSpec) *v1beta1.PyTorchTrainingJob {
	job := &v1beta1.PyTorchTrainingJob{Spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: specs, TorchrunConfig: torchrun}}
	job.Namespace, job.Name, job.UID = "ns", "job", "job-uid"
	return job
}

// wire returns the member with the given rank and the template of its pod, after Wire has changed the template for
// the given attempt.
func wire(
	t *testing.T, job *v1beta1.PyTorchTrainingJob, rank int, attempt int32,
) (framework.Member, *corev1.PodTemplateSpec) {
	t.Helper()
	peers := framework.NewPeers(job.Namespace, job.Name, job.UID, "cluster.local", attempt, pytorch{}.JobSpec(job).Roles)
	member := peers.Members[rank]
	template := member.Role.Template.DeepCopy()
	if err := (pytorch{}).Wire(job, peers, member, template); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return member, template
}

// env returns variables from pairs of a name and a value.
func env(pairs ...string) []corev1.EnvVar {
	var list []corev1.EnvVar
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func TestWireWithoutTorchrun(t *testing.T) {
	t.Parallel()
	podIP := corev1.EnvVar{Name: "MASTER_ADDR", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
	}}
	for name, tc := range map[string]struct {
		job      *v1beta1.PyTorchTrainingJob
		rank     int
		wantName string
		want     []corev1.EnvVar
	}{
		"the leader has rank 0": {
			job:      jobOf(nil, replicas("master", 1, training()), replicas("worker", 2, training())),
			wantName: "job-master-0",
			want: env("MASTER_ADDR", "job-master-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "3", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
		},
		"a worker has its own rank and the address of the master": {
			job:      jobOf(nil, replicas("master", 1, training()), replicas("worker", 2, training())),
			rank:     2,
			wantName: "job-worker-1",
			want: env("MASTER_ADDR", "job-master-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "3", "RANK", "2", "LOCAL_RANK", "0", "NODE_RANK", "2"),
		},
		"the master leads even if it is the last type of the spec": {
			job: jobOf(nil, replicas("worker", 2, training()), replicas("ps", 1, training()),
				replicas("master", 1, training())),
			rank:     1,
			wantName: "job-worker-0",
			want: env("MASTER_ADDR", "job-master-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "4", "RANK", "1", "LOCAL_RANK", "0", "NODE_RANK", "1"),
		},
		"the types after the master keep their order": {
			job: jobOf(nil, replicas("worker", 2, training()), replicas("ps", 1, training()),
				replicas("master", 1, training())),
			rank:     3,
			wantName: "job-ps-0",
			want: env("MASTER_ADDR", "job-master-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "4", "RANK", "3", "LOCAL_RANK", "0", "NODE_RANK", "3"),
		},
		"without a master, the first type leads": {
			job:      jobOf(nil, replicas("node", 2, training())),
			rank:     1,
			wantName: "job-node-1",
			want: env("MASTER_ADDR", "job-node-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "2", "RANK", "1", "LOCAL_RANK", "0", "NODE_RANK", "1"),
		},
		"our variables come first, so that the user's variables can refer to them": {
			job:      jobOf(nil, replicas("node", 1, training(env("URL", "tcp://$(MASTER_ADDR)")...))),
			wantName: "job-node-0",
			want: env("MASTER_ADDR", "job-node-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "1", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0",
				"URL", "tcp://$(MASTER_ADDR)"),
		},
		"the user's variables override ours": {
			job:      jobOf(nil, replicas("node", 2, training(podIP, env("MASTER_PORT", "4242")[0], env("RANK", "7")[0]))),
			wantName: "job-node-0",
			want: append(env("PYTHONUNBUFFERED", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "0", "NODE_RANK", "0"),
				podIP, env("MASTER_PORT", "4242")[0], env("RANK", "7")[0]),
		},
		"a type with 0 replicas does not count": {
			job:      jobOf(nil, replicas("master", 1, training()), replicas("worker", 0, training())),
			wantName: "job-master-0",
			want: env("MASTER_ADDR", "job-master-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "1", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
		},
		"a single replica with several devices can start a process for each": {
			job:      jobOf(nil, replicas("node", 1, withDevices(training(), 8))),
			wantName: "job-node-0",
			want:     env("MASTER_ADDR", "job-node-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500", "PYTHONUNBUFFERED", "1"),
		},
		"a single replica with one device is one process": {
			job:      jobOf(nil, replicas("node", 1, withDevices(training(), 1))),
			wantName: "job-node-0",
			want: env("MASTER_ADDR", "job-node-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "1", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
		},
		"each of several replicas is one process, with any number of devices": {
			job:      jobOf(nil, replicas("node", 2, withDevices(training(), 8))),
			wantName: "job-node-0",
			want: env("MASTER_ADDR", "job-node-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
		},
		"a disabled torchrunConfig has no effect": {
			job:      jobOf(&v1beta1.TorchrunConfig{ProcPerNode: "gpu"}, replicas("node", 2, training())),
			wantName: "job-node-0",
			want: env("MASTER_ADDR", "job-node-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "WORLD_SIZE", "2", "RANK", "0", "LOCAL_RANK", "0", "NODE_RANK", "0"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			member, got := wire(t, tc.job, tc.rank, 0)
			want := training(tc.want...)
			want.Spec.Containers[0].Resources = got.Spec.Containers[0].Resources
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("unexpected template (-want +got):\n%s", diff)
			}
			if member.Name != tc.wantName {
				t.Errorf("rank %d is replica %s, want %s", tc.rank, member.Name, tc.wantName)
			}
		})
	}
}

func TestWireWithTorchrun(t *testing.T) {
	t.Parallel()
	const endpoint = "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)"
	for name, tc := range map[string]struct {
		torchrun v1beta1.TorchrunConfig
		scope    batchv1beta1.RestartScope
		// rank is the rank of one of three replicas. The leader has rank 0.
		rank    int
		attempt int32
		want    []string
	}{
		"the leader hosts the rendezvous": {
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint, "--rdzv_conf=is_host=1",
			},
		},
		"a worker does not host the rendezvous": {
			rank: 2,
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint, "--rdzv_conf=is_host=0",
			},
		},
		"a restart of the job uses another rendezvous ID": {
			attempt: 2,
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=c10d", "--rdzv_id=job-uid-2", endpoint, "--rdzv_conf=is_host=1",
			},
		},
		"procPerNode sets the number of processes per replica": {
			torchrun: v1beta1.TorchrunConfig{ProcPerNode: "8"},
			want: []string{
				"torchrun", "--nnodes=3", "--nproc_per_node=8", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1",
			},
		},
		"procPerNode gpu starts one process for each GPU": {
			torchrun: v1beta1.TorchrunConfig{ProcPerNode: "gpu"},
			want: []string{
				"torchrun", "--nnodes=3", "--nproc_per_node=gpu", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1",
			},
		},
		"with maxRestarts, torchrun has no limit, because its supervisor has one": {
			torchrun: v1beta1.TorchrunConfig{MaxRestarts: ptr.To[int32](5)},
			want: []string{
				"torchrun", "--nnodes=3", "--max_restarts=1000000", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1",
			},
		},
		"with the scope Rendezvous, torchrun waits for others without a limit, and starts processes again": {
			scope:    batchv1beta1.RestartScopeRendezvous,
			torchrun: v1beta1.TorchrunConfig{ExtraOptions: []string{"--rdzv_conf=last_call_timeout=5"}},
			want: []string{
				"torchrun", "--nnodes=3", "--max_restarts=1000000", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1,join_timeout=31536000,last_call_timeout=5",
			},
		},
		"with the backend static, maxRestarts limits the restarts by torchrun": {
			torchrun: v1beta1.TorchrunConfig{
				MaxRestarts: ptr.To[int32](5), RdzvBackend: "static", ExtraOptions: []string{"--rdzv_endpoint=leader:1234"},
			},
			want: []string{
				"torchrun", "--nnodes=3", "--max_restarts=5", "--rdzv_backend=static", "--rdzv_id=job-uid-0",
				"--rdzv_endpoint=leader:1234",
			},
		},
		"a limit in the extra options limits the restarts by torchrun": {
			torchrun: v1beta1.TorchrunConfig{MaxRestarts: ptr.To[int32](5), ExtraOptions: []string{"--max-restarts", "7"}},
			want: []string{
				"torchrun", "--nnodes=3", "--max_restarts=5", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1", "--max-restarts", "7",
			},
		},
		"maxRestarts 0 turns restarts by torchrun off": {
			torchrun: v1beta1.TorchrunConfig{MaxRestarts: ptr.To[int32](0)},
			want: []string{
				"torchrun", "--nnodes=3", "--max_restarts=0", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1",
			},
		},
		"an explicit c10d backend is the same as the default": {
			torchrun: v1beta1.TorchrunConfig{RdzvBackend: "c10d"},
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint, "--rdzv_conf=is_host=1",
			},
		},
		"another backend uses the user's endpoint": {
			torchrun: v1beta1.TorchrunConfig{RdzvBackend: "etcd-v2", ExtraOptions: []string{"--rdzv_endpoint=etcd:2379"}},
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=etcd-v2", "--rdzv_id=job-uid-0", "--rdzv_endpoint=etcd:2379",
			},
		},
		"extra options come last, so that they override ours": {
			torchrun: v1beta1.TorchrunConfig{
				ProcPerNode: "auto", MaxRestarts: ptr.To[int32](1), ExtraOptions: []string{"--nnodes=1", "--monitor_interval=1"},
			},
			want: []string{
				"torchrun", "--nnodes=3", "--nproc_per_node=auto", "--max_restarts=1000000", "--rdzv_backend=c10d",
				"--rdzv_id=job-uid-0", endpoint, "--rdzv_conf=is_host=1", "--nnodes=1", "--monitor_interval=1",
			},
		},
		"the user's rendezvous settings are appended to our flag": {
			torchrun: v1beta1.TorchrunConfig{ExtraOptions: []string{"--rdzv_conf=timeout=60,last_call_timeout=5", "--tee=1"}},
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1,timeout=60,last_call_timeout=5", "--tee=1",
			},
		},
		"rendezvous settings are appended for each spelling of the flag": {
			torchrun: v1beta1.TorchrunConfig{
				ExtraOptions: []string{"--rdzv_conf", "is_host=0", "--tee=1", "--rdzv-conf=timeout=60"},
			},
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0", endpoint,
				"--rdzv_conf=is_host=1,is_host=0,timeout=60", "--tee=1",
			},
		},
		"rendezvous settings of another backend stay as they are": {
			torchrun: v1beta1.TorchrunConfig{
				RdzvBackend: "etcd-v2", ExtraOptions: []string{"--rdzv_endpoint=etcd:2379", "--rdzv_conf=timeout=60"},
			},
			want: []string{
				"torchrun", "--nnodes=3", "--rdzv_backend=etcd-v2", "--rdzv_id=job-uid-0", "--rdzv_endpoint=etcd:2379",
				"--rdzv_conf=timeout=60",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.torchrun.Enabled = true
			job := jobOf(&tc.torchrun, replicas("worker", 2, training()), replicas("master", 1, training()))
			job.Spec.RunPolicy.RestartScope = tc.scope
			_, got := wire(t, job, tc.rank, tc.attempt)

			// The args of the template stay: they are the script and its args. torchrun sets the ranks and the world size.
			want := training(env("MASTER_ADDR", "job-master-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
				"PYTHONUNBUFFERED", "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")...)
			want.Spec.Containers[0].Command = tc.want
			if diff := cmp.Diff(&want, unsupervised(t, got)); diff != "" {
				t.Errorf("unexpected template (-want +got):\n%s", diff)
			}
		})
	}
}

// elasticJob returns an elastic job with the expected number of replicas.
func elasticJob(expected int32, template corev1.PodTemplateSpec) *v1beta1.PyTorchTrainingJob {
	job := jobOf(&v1beta1.TorchrunConfig{Enabled: true, MaxRestarts: ptr.To[int32](9)}, replicas("worker", 2, template))
	job.Spec.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: ptr.To[int32](2), MaxReplicas: ptr.To[int32](8), ExpectedReplicas: &expected,
	}
	return job
}

// The template of an elastic replica does not depend on the current number of replicas, so scaling does not change it.
func TestWireWithElasticTorchrun(t *testing.T) {
	t.Parallel()
	want := training(env("MASTER_ADDR", "job-worker-0.job.ns.svc.cluster.local", "MASTER_PORT", "29500",
		"PYTHONUNBUFFERED", "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")...)
	want.Spec.Containers[0].Command = []string{
		"torchrun", "--nnodes=2:8", "--max_restarts=1000000", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0",
		"--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)", "--rdzv_conf=is_host=0",
	}
	for _, expected := range []int32{2, 5} {
		_, got := wire(t, elasticJob(expected, training()), 1, 0)
		if diff := cmp.Diff(&want, unsupervised(t, got)); diff != "" {
			t.Errorf("unexpected template (-want +got):\n%s", diff)
		}
	}
}

// The endpoint refers to the environment variables, so an address that the user sets also applies to the endpoint.
func TestWireWithTorchrunUsesTheAddressThatTheUserSets(t *testing.T) {
	t.Parallel()
	mine := env("MASTER_ADDR", "10.0.0.1", "MASTER_PORT", "4242")
	_, got := wire(t, jobOf(&v1beta1.TorchrunConfig{Enabled: true}, replicas("node", 1, training(mine...))), 0, 0)
	want := training(append(env("PYTHONUNBUFFERED", "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"), mine...)...)
	want.Spec.Containers[0].Command = []string{
		"torchrun", "--nnodes=1", "--rdzv_backend=c10d", "--rdzv_id=job-uid-0",
		"--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)", "--rdzv_conf=is_host=1",
	}
	if diff := cmp.Diff(&want, unsupervised(t, got)); diff != "" {
		t.Errorf("unexpected template (-want +got):\n%s", diff)
	}
}

// A framework changes neither sidecars nor init containers.
func TestWireChangesOnlyTheMainContainer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		containers []string
		want       string
	}{
		"the container pytorch is the main container": {
			containers: []string{"sidecar", "python", "pytorch"}, want: "pytorch",
		},
		"without pytorch, the container python is the main container": {
			containers: []string{"sidecar", "python"}, want: "python",
		},
		"without pytorch and python, the first container is the main container": {
			containers: []string{"train", "sidecar"}, want: "train",
		},
		"a single container is the main container": {containers: []string{"train"}, want: "train"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "pytorch"}}}}
			for _, container := range tc.containers {
				template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: container})
			}
			_, got := wire(t, jobOf(&v1beta1.TorchrunConfig{Enabled: true}, replicas("node", 1, template)), 0, 0)
			var wired []string
			for _, c := range append(got.Spec.InitContainers, got.Spec.Containers...) {
				if c.Command != nil || c.Env != nil {
					wired = append(wired, c.Name)
				}
			}
			if diff := cmp.Diff([]string{tc.want}, wired); diff != "" {
				t.Errorf("unexpected changed containers (-want +got):\n%s", diff)
			}
		})
	}
}
