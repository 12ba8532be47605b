package tensorflow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// tfConfig is TF_CONFIG as TensorFlow reads it.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"`
	Task    tfTask              `json:"task"`
}

type tfTask struct {
	Type  string `json:"type"`
	Index int32  `json:"index"`
}

// parse reads TF_CONFIG. It returns an error if TF_CONFIG has a field that tfConfig does not have.
func parse(value string) (tfConfig, error) {
	var config tfConfig
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.DisallowUnknownFields()
	return config, decoder.Decode(&config)
}

func replicas(roleType v1beta1.ReplicaType, n int32, template corev1.PodTemplateSpec) v1beta1.ReplicaSpec {
	return v1beta1.ReplicaSpec{Type: roleType, Replicas: &n, Template: template}
}

// training returns a template whose main container has the given environment.
func training(env ...corev1.EnvVar) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "tensorflow", Command: []string{"python"}, Args: []string{"train.py", "--epochs=3"}, Env: env,
	}}}}
}

// listening returns a template whose main container has the given ports.
func listening(ports ...corev1.ContainerPort) corev1.PodTemplateSpec {
	template := training()
	template.Spec.Containers[0].Ports = ports
	return template
}

func jobOf(specs ...v1beta1.ReplicaSpec) *v1beta1.TensorFlowTrainingJob {
	job := &v1beta1.TensorFlowTrainingJob{Spec: v1beta1.TensorFlowTrainingJobSpec{ReplicaSpecs: specs}}
	job.Namespace, job.Name, job.UID = "ns", "job", "job-uid"
	return job
}

// wire returns the member with the given rank and the template of its pod, after Wire has changed the template.
func wire(job *v1beta1.TensorFlowTrainingJob, rank int) (framework.Member, *corev1.PodTemplateSpec, error) {
	peers := framework.NewPeers(job.Namespace, job.Name, job.UID, "cluster.local", 0, tensorflow{}.JobSpec(job).Roles)
	member := peers.Members[rank]
	template := member.Role.Template.DeepCopy()
	return member, template, tensorflow{}.Wire(job, peers, member, template)
}

// env returns variables from pairs of a name and a value.
func env(pairs ...string) []corev1.EnvVar {
	var list []corev1.EnvVar
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func TestConfigOfAMember(t *testing.T) {
	t.Parallel()
	const (
		chief, worker = v1beta1.ReplicaTypeChief, v1beta1.ReplicaTypeWorker
		ps, evaluator = v1beta1.ReplicaTypePS, v1beta1.ReplicaTypeEvaluator

		domain = ".job.ns.svc.cluster.local"
	)
	everyone := jobOf(replicas(ps, 1, training()), replicas(worker, 2, training()), replicas(evaluator, 2, training()),
		replicas(chief, 1, training()))
	everyonesCluster := map[string][]string{
		"chief":  {"job-chief-0" + domain + ":2222"},
		"ps":     {"job-ps-0" + domain + ":2222"},
		"worker": {"job-worker-0" + domain + ":2222", "job-worker-1" + domain + ":2222"},
	}
	for name, tc := range map[string]struct {
		job      *v1beta1.TensorFlowTrainingJob
		rank     int
		wantName string
		want     tfConfig
	}{
		"the chief leads even if it is the last type of the spec": {
			job: everyone, rank: 0, wantName: "job-chief-0",
			want: tfConfig{Cluster: everyonesCluster, Task: tfTask{Type: "chief"}},
		},
		"a worker has its task and the cluster": {
			job: everyone, rank: 2, wantName: "job-worker-1",
			want: tfConfig{Cluster: everyonesCluster, Task: tfTask{Type: "worker", Index: 1}},
		},
		"a parameter server has its task and the cluster": {
			job: everyone, rank: 3, wantName: "job-ps-0",
			want: tfConfig{Cluster: everyonesCluster, Task: tfTask{Type: "ps"}},
		},
		"an evaluator has its task and the cluster, which contains no evaluator": {
			job: everyone, rank: 5, wantName: "job-evaluator-1",
			want: tfConfig{Cluster: everyonesCluster, Task: tfTask{Type: "evaluator", Index: 1}},
		},
		"without a chief, worker 0 leads": {
			job: jobOf(replicas(ps, 1, training()), replicas(worker, 1, training())), rank: 0, wantName: "job-worker-0",
			want: tfConfig{
				Cluster: map[string][]string{"ps": {"job-ps-0" + domain + ":2222"}, "worker": {"job-worker-0" + domain + ":2222"}},
				Task:    tfTask{Type: "worker"},
			},
		},
		"a type without replicas is not in the cluster": {
			job: jobOf(replicas(chief, 0, training()), replicas(worker, 2, training())), rank: 1, wantName: "job-worker-1",
			want: tfConfig{
				Cluster: map[string][]string{"worker": {"job-worker-0" + domain + ":2222", "job-worker-1" + domain + ":2222"}},
				Task:    tfTask{Type: "worker", Index: 1},
			},
		},
		"a type listens on its port tfjob-port, or on the default port": {
			job: jobOf(
				replicas(worker, 1,
					listening(corev1.ContainerPort{Name: "metrics", ContainerPort: 9090},
						corev1.ContainerPort{Name: "tfjob-port", ContainerPort: 4444})),
				replicas(ps, 1, listening(corev1.ContainerPort{ContainerPort: 9090})),
			),
			wantName: "job-worker-0",
			want: tfConfig{
				Cluster: map[string][]string{"ps": {"job-ps-0" + domain + ":2222"}, "worker": {"job-worker-0" + domain + ":4444"}},
				Task:    tfTask{Type: "worker"},
			},
		},
		"the ports of a sidecar are ignored": {
			job: jobOf(replicas(worker, 2, corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "sidecar", Ports: []corev1.ContainerPort{{Name: "tfjob-port", ContainerPort: 4444}}}, {Name: "tensorflow"},
			}}})),
			wantName: "job-worker-0",
			want: tfConfig{
				Cluster: map[string][]string{"worker": {"job-worker-0" + domain + ":2222", "job-worker-1" + domain + ":2222"}},
				Task:    tfTask{Type: "worker"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			member, template, err := wire(tc.job, tc.rank)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if member.Name != tc.wantName {
				t.Errorf("rank %d is replica %s, want %s", tc.rank, member.Name, tc.wantName)
			}
			got := map[string]string{}
			for _, e := range mainContainer(template.Spec).Env {
				got[e.Name] = e.Value
			}
			config, err := parse(got["TF_CONFIG"])
			if err != nil {
				t.Fatalf("TF_CONFIG is %q: %v", got["TF_CONFIG"], err)
			}
			if diff := cmp.Diff(tc.want, config); diff != "" {
				t.Errorf("unexpected TF_CONFIG (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	const ofTwo = `{"cluster":{"worker":["job-worker-0.job.ns.svc.cluster.local:2222","job-worker-1.job.ns.svc.cluster.local:2222"]},` +
		`"task":{"type":"worker","index":0}}`
	fromMap := corev1.EnvVar{Name: "TF_CONFIG", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}, Key: "config",
		},
	}}
	for name, tc := range map[string]struct {
		n    int32
		env  []corev1.EnvVar
		want []corev1.EnvVar
	}{
		"two replicas have both addresses in TF_CONFIG": {
			n: 2, want: env("PYTHONUNBUFFERED", "1", "TF_CONFIG", ofTwo),
		},
		"a single replica has no TF_CONFIG": {
			n: 1, want: env("PYTHONUNBUFFERED", "1"),
		},
		"our variables come first, so that the user's variables can refer to them": {
			n: 2, env: env("MINE", "$(TF_CONFIG)"),
			want: env("PYTHONUNBUFFERED", "1", "TF_CONFIG", ofTwo, "MINE", "$(TF_CONFIG)"),
		},
		"the user's variables override ours": {
			n: 2, env: env("TF_CONFIG", "{}", "PYTHONUNBUFFERED", ""),
			want: env("TF_CONFIG", "{}", "PYTHONUNBUFFERED", ""),
		},
		"the user's TF_CONFIG can come from a ConfigMap": {
			n: 2, env: []corev1.EnvVar{fromMap},
			want: append(env("PYTHONUNBUFFERED", "1"), fromMap),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, err := wire(jobOf(replicas(v1beta1.ReplicaTypeWorker, tc.n, training(tc.env...))), 0)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			want := training(tc.want...)
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("unexpected template (-want +got):\n%s", diff)
			}
		})
	}
}

// A framework changes neither sidecars nor init containers.
func TestWireChangesOnlyTheMainContainer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		containers []string
		want       string
	}{
		"the container tensorflow is the main container": {
			containers: []string{"sidecar", "python", "tensorflow"}, want: "tensorflow",
		},
		"without tensorflow, the first container is the main container": {
			containers: []string{"train", "sidecar"}, want: "train",
		},
		"a single container is the main container": {containers: []string{"train"}, want: "train"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "tensorflow"}}}}
			for _, container := range tc.containers {
				template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: container})
			}
			_, got, err := wire(jobOf(replicas(v1beta1.ReplicaTypeWorker, 2, template)), 0)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			var wired []string
			for _, c := range append(got.Spec.InitContainers, got.Spec.Containers...) {
				if c.Env != nil {
					wired = append(wired, c.Name)
				}
			}
			if diff := cmp.Diff([]string{tc.want}, wired); diff != "" {
				t.Errorf("unexpected changed containers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWireErrors(t *testing.T) {
	t.Parallel()
	named := func(name string, job *v1beta1.TensorFlowTrainingJob) *v1beta1.TensorFlowTrainingJob {
		job.Name = name
		return job
	}
	const longName = "a-name-of-forty-letters-which-is-not-rare"
	for name, tc := range map[string]struct {
		job *v1beta1.TensorFlowTrainingJob
		// want is the expected error, or empty if Wire must succeed.
		want string
	}{
		"a job of 2,000 replicas is accepted": {
			job: jobOf(replicas(v1beta1.ReplicaTypeWorker, 2000, training())),
		},
		"a TF_CONFIG that is too large for Linux is refused": {
			job: named(longName,
				jobOf(replicas(v1beta1.ReplicaTypeChief, 1, training()), replicas(v1beta1.ReplicaTypeWorker, 1199, training()))),
			want: "TF_CONFIG for 1200 replicas has 147765 bytes, but Linux allows at most 131072 bytes: " +
				"use fewer replicas or a shorter name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := wire(tc.job, 0)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}
