package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/jobs"
)

// parse returns the job in a manifest. The manifest needs no apiVersion.
func parse(t *testing.T, manifest string) jobs.Job {
	t.Helper()
	var kind struct{ Kind string }
	if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
		t.Fatal(err)
	}
	k := jobs.KindNamed(kind.Kind)
	job := k.New()
	if err := yaml.UnmarshalStrict([]byte(manifest), job); err != nil {
		t.Fatal(err)
	}
	return jobs.Job{Job: job, Kind: k}
}

const (
	masterLast = `
kind: PyTorchTrainingJob
metadata: {name: digits}
spec:
  replicaSpecs:
  - {type: worker, replicas: 2, template: {spec: {containers: [{name: log}, {name: pytorch}]}}}
  - {type: master, template: {spec: {containers: [{name: first}, {name: second}]}}}
`
	scaledDown = `
kind: PyTorchTrainingJob
metadata: {name: digits}
spec:
  torchrunConfig: {enabled: true}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
  replicaSpecs:
  - {type: worker, template: {spec: {containers: [{name: main}]}}}
status:
  phase: Running
  tasks: [{type: worker, replicas: [{name: digits-worker-0, phase: Running}, {name: digits-worker-2, phase: Running}]}]
`
	words = `
kind: DeepSpeedJob
metadata: {name: words}
spec:
  worker: {replicas: 2, template: {spec: {containers: [{name: main}]}}}
status:
  failures: [{replica: words-worker-1, reason: Error, message: no data}]
`
)

func TestReplicas(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     []jobs.Replica
	}{
		"the leader has rank 0": {
			manifest: masterLast,
			want: []jobs.Replica{
				{Name: "digits-master-0", Type: "master", Rank: 0, MainContainer: "first"},
				{Name: "digits-worker-0", Type: "worker", Rank: 1, MainContainer: "pytorch"},
				{Name: "digits-worker-1", Type: "worker", Rank: 2, MainContainer: "pytorch"},
			},
		},
		"an elastic job has the replicas that its status records": {
			manifest: scaledDown,
			want: []jobs.Replica{
				{Name: "digits-worker-0", Type: "worker", Rank: 0, MainContainer: "main"},
				{Name: "digits-worker-2", Type: "worker", Rank: 1, MainContainer: "main"},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parse(t, test.manifest).Replicas()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOneReplica(t *testing.T) {
	tests := map[string]struct {
		manifest string
		find     func(jobs.Job) (jobs.Replica, error)
		want     string
	}{
		"a replica has a rank": {
			manifest: masterLast, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaOfRank(2) },
			want: "digits-worker-1",
		},
		"a rank that no replica has is an error": {
			manifest: masterLast, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaOfRank(3) },
			want: "ptjob/digits has no replica of rank 3: the ranks of its replicas are 0 to 2",
		},
		"a negative rank is an error": {
			manifest: masterLast, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaOfRank(-1) },
			want: "ptjob/digits has no replica of rank -1: the ranks of its replicas are 0 to 2",
		},
		"the error about a rank explains the ranks of DeepSpeed": {
			manifest: words, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaOfRank(8) },
			want: "dsjob/words has no replica of rank 8: the ranks of its replicas are 0 to 1. Worker 0 launches the " +
				"processes of all ranks, and its log has the output of all of them.",
		},
		"a replica can be named without the job": {
			manifest: masterLast, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaNamed("worker-1") },
			want: "digits-worker-1",
		},
		"a replica can be named as its pod": {
			manifest: masterLast, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaNamed("digits-master-0") },
			want: "digits-master-0",
		},
		"an unknown name is an error": {
			manifest: masterLast, find: func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaNamed("ps-0") },
			want: `ptjob/digits has no replica "ps-0": its 3 replicas are master-0 to worker-1`,
		},
		"an unknown name is an error that names the only replica": {
			manifest: "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {replicaSpecs: [{type: worker}]}}",
			find:     func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaNamed("ps-0") },
			want:     `ptjob/digits has no replica "ps-0": its only replica is worker-0`,
		},
		"the launcher of DeepSpeed has the output of a failure": {
			manifest: words, find: jobs.Job.Failed, want: "words-worker-0",
		},
		"the replica that failed can be gone from an elastic job": {
			manifest: "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {elastic: {enabled: true}, replicaSpecs: " +
				"[{type: worker, template: {}}]}, status: {tasks: [{type: worker, replicas: [{name: digits-worker-0}]}], " +
				"failures: [{replica: digits-worker-3}]}}",
			find: jobs.Job.Failed, want: "digits-worker-3",
		},
		"no replica has failed": {
			manifest: masterLast, find: jobs.Job.Failed, want: "no replica of ptjob/digits has failed",
		},
		"a job without replicas has no leader": {
			manifest: "{kind: DeepSpeedJob, metadata: {name: words}, spec: {worker: {replicas: 0, template: {}}}}",
			find:     func(j jobs.Job) (jobs.Replica, error) { return j.ReplicaOfRank(0) }, want: "dsjob/words has no replicas",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			replica, err := test.find(parse(t, test.manifest))
			got := replica.Name
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFirstProcessNote(t *testing.T) {
	torchrun := func(config, types string) string {
		return "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {torchrunConfig: {enabled: true" + config +
			"}, replicaSpecs: [" + types + "]}}"
	}
	for name, test := range map[string]struct{ manifest, want string }{
		"the process of rank 0 is in the replica whose name comes first": {
			manifest: torchrun("", "{type: worker, replicas: 2, template: {}}, {type: node, replicas: 11, template: {}}"),
			want: "Torchrun numbers its processes by the names of the pods, so its rank 0 is not in the leader, but in " +
				"digits-node-0: kubectl train logs ptjob/digits --replica=node-0",
		},
		"the process of rank 0 is in the leader of replicas of one type": {
			manifest: torchrun("", "{type: worker, replicas: 11, template: {}}"),
		},
		"the process of rank 0 is in the leader if its name comes first": {
			manifest: torchrun("", "{type: worker, template: {}}, {type: master, template: {}}"),
		},
		"without the backend c10d, the replica is unknown": {
			manifest: torchrun(", rdzvBackend: etcd-v2", "{type: worker, template: {}}, {type: node, template: {}}"),
		},
		"without torchrun, the leader has rank 0": {
			manifest: "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {replicaSpecs: " +
				"[{type: worker, template: {}}, {type: node, template: {}}]}}",
		},
		"a job without replicas has no such process": {
			manifest: torchrun("", "{type: worker, replicas: 0, template: {}}"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parse(t, test.manifest).FirstProcessNote()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHTTPPort(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "health", ContainerPort: 8081}, {Name: "http", ContainerPort: 8080},
		}}},
		Containers: []corev1.Container{{Name: "tensorboard"}},
	}}
	if got := jobs.HTTPPort(pod); got != 8080 {
		t.Errorf("the port is %d, but the sidecar listens on 8080", got)
	}
}

func TestLocalAddress(t *testing.T) {
	tests := map[string]struct{ url, want string }{
		"the address of a Service has no path": {url: "http://digits-tb.vision.svc/", want: "http://127.0.0.1:6006/"},
		"the path of a gateway is kept": {
			url: "https://boards.example.com/vision/digits/", want: "http://127.0.0.1:6006/vision/digits/",
		},
		"a TensorBoard without an address has no path": {url: "", want: "http://127.0.0.1:6006/"},
		"an address cannot lead to another server":     {url: "@example.com/", want: "http://127.0.0.1:6006/"},
		"an address cannot have control characters":    {url: "http://a/\u009b31m", want: "http://127.0.0.1:6006/%C2%9B31m"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, jobs.LocalAddress(test.url, "127.0.0.1", 6006)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
