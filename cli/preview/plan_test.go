package preview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/controller"
)

// spec returns the spec of a PyTorchTrainingJob with the given number of replicas. The parameter others has the other
// fields of the spec.
func spec(replicas int, others string) string {
	return fmt.Sprintf("spec: {%sreplicaSpecs: [{type: worker, replicas: %d, template: {spec: {containers: ["+
		"{name: pytorch, image: training, command: [python3, train.py]}]}}}]}\n", others, replicas)
}

// planOf returns the plan of the only job in a text.
func planOf(t *testing.T, text string, installed ...func(*controller.Options)) Plan {
	t.Helper()
	documents, err := Read([]string{"-"}, false, strings.NewReader(text))
	if err != nil || len(documents) != 1 {
		t.Fatalf("the text has %d documents, want 1: %v", len(documents), err)
	}
	kind, err := KindOf(documents[0])
	if err != nil || kind == nil {
		t.Fatalf("%s is no job: %v", documents[0].Kind, err)
	}
	job, err := Admit(t.Context(), kind, documents[0], "default", false)
	if err != nil {
		t.Fatal(err)
	}
	installation, err := kind.Released()
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range installed {
		change(&installation)
	}
	plan, err := NewPlan(job, installation)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func summaryOf(t *testing.T, plan Plan) string {
	t.Helper()
	var b strings.Builder
	if err := plan.WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriteSummary(t *testing.T) {
	const want = `PyTorchTrainingJob digits in namespace default

The controller creates, in this order:
  Service  digits
  Pod      digits-worker-0 to digits-worker-199 (200 pods)

The pods, with + for what the controller adds or changes:

digits-worker-0: type worker, rank 0 (the leader), container pytorch
    Image:       training
    Command:     python3 train.py
  + Environment: MASTER_ADDR=digits-worker-0.digits.default.svc.example.com
  +              MASTER_PORT=29500
  +              PYTHONUNBUFFERED=1
  +              WORLD_SIZE=200
  +              RANK=0
  +              LOCAL_RANK=0
  +              NODE_RANK=0

digits-worker-1 to digits-worker-199: type worker, ranks 1 to 199, container pytorch
    These 199 pods differ only in their names, indices and ranks. This is digits-worker-1:
    Image:       training
    Command:     python3 train.py
  + Environment: MASTER_ADDR=digits-worker-0.digits.default.svc.example.com
  +              MASTER_PORT=29500
  +              PYTHONUNBUFFERED=1
  +              WORLD_SIZE=200
  +              RANK=1
  +              LOCAL_RANK=0
  +              NODE_RANK=1
  + Init:        wait-for-peers, image registry/controller:v1
  +                wait-dns --timeout 10m0s digits-worker-0.digits.default.svc.example.com

Notes:
  - 00000000-0000-0000-0000-000000000000 stands for the UID, which the API server chooses.
`
	plan := planOf(t, job+spec(200, ""), func(i *controller.Options) {
		i.Image, i.ClusterDomain = "registry/controller:v1", "example.com"
	})
	if diff := cmp.Diff(want, summaryOf(t, plan)); diff != "" {
		t.Errorf("unexpected summary (-want +got):\n%s", diff)
	}
	for i, r := range plan.Replicas {
		if want := fmt.Sprintf("digits-worker-%d", i); r.Rank != i || r.Pod.Name != want {
			t.Errorf("replica %d has rank %d and pod %s, want %s", i, r.Rank, r.Pod.Name, want)
		}
	}
}

func TestWriteSummaryDescribesReplicasThatWaitForEachOtherOnce(t *testing.T) {
	var replicas []string
	for _, roleType := range []string{"chief", "ps", "worker"} {
		replicas = append(replicas, fmt.Sprintf("{type: %s, replicas: %d, template: {spec: {containers: [{name: tensorflow, "+
			"image: training}]}}}", roleType, map[string]int{"chief": 1, "ps": 30, "worker": 200}[roleType]))
	}
	summary := summaryOf(t, planOf(t, strings.ReplaceAll(job, "PyTorch", "TensorFlow")+"spec: {replicaSpecs: ["+
		strings.Join(replicas, ", ")+"]}"))
	var headings []string
	for line := range strings.Lines(summary) {
		if strings.Contains(line, ": type ") {
			headings = append(headings, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff([]string{
		"digits-chief-0: type chief, rank 0 (the leader), container tensorflow",
		"digits-worker-0 to digits-worker-199: type worker, ranks 1 to 200, container tensorflow",
		"digits-ps-0 to digits-ps-29: type ps, ranks 201 to 230, container tensorflow",
	}, headings); diff != "" {
		t.Errorf("unexpected headings (-want +got):\n%s", diff)
	}
	if want := "[...] stands for a part of a long value, which --replica shows."; !strings.Contains(summary, want) {
		t.Errorf("the summary does not contain %q:\n%s", want, summary)
	}
	if n := len(summary); n > 10_000 {
		t.Errorf("the summary has %d bytes, want at most 10,000", n)
	}
}

func TestWriteReplicaShowsAllThatDiffersFromTheTemplate(t *testing.T) {
	plan := planOf(t, job+`spec:
  torchrunConfig: {enabled: true}
  progress: {enabled: true}
  replicaSpecs:
    - type: worker
      replicas: 2
      template:
        spec:
          hostNetwork: true
          nodeSelector: {gpu: a100}
          initContainers: [{name: fetch, image: fetch, args: [--all]}]
          containers:
            - {name: logs, image: logs}
            - name: pytorch
              image: training
              args: [train.py]
              env:
                - {name: HTTP_PROXY, value: "http://proxy"}
                - {name: NO_PROXY, value: internal}
                - {name: TOKEN, valueFrom: {secretKeyRef: {name: credentials, key: token}}}
                - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
              envFrom: [{configMapRef: {name: settings}}]
              resources: {requests: {cpu: "1"}, limits: {nvidia.com/gpu: "8"}}
              volumeMounts: [{name: data, mountPath: /data, subPath: train}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: training-data}}]
`, func(i *controller.Options) { i.Image, i.HoldLeaders = "controller", true })
	var b strings.Builder
	if err := plan.WriteReplica(&b, plan.Replicas[0]); err != nil {
		t.Fatal(err)
	}
	const want = `digits-worker-0: type worker, rank 0 (the leader), container pytorch
    Image:       training
  + Command:     /t9k/supervisor/supervise --restarts=0 --id=00000000-0000-0000-0000-000000000000-0 \
  +                --replica=digits-worker-0 --leader=digits-worker-0.digits.default.svc.cluster.local:20182 \
  +                --is-leader --only-order torchrun --nnodes=2 --rdzv_backend=c10d \
  +                --rdzv_id=00000000-0000-0000-0000-000000000000-0 '--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)' \
  +                --rdzv_conf=is_host=1
    Args:        train.py
  + Environment: KUBEFLOW_TRAINER_SERVER_URL=http://127.0.0.1:22182
  +              KUBEFLOW_TRAINER_SERVER_TOKEN=/t9k/progress-token/token
  +              T9K_PROGRESS_FILE=/t9k/progress/reports
  +              MASTER_ADDR=digits-worker-0.digits.default.svc.cluster.local
  +              MASTER_PORT=20181
  +              PYTHONUNBUFFERED=1
  +              PET_LOCAL_ADDR=digits-worker-0.digits.default.svc.cluster.local
  +              TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
  +              NO_PROXY=internal,127.0.0.1
                 HTTP_PROXY=http://proxy
                 TOKEN from key token of secret credentials
                 NODE from field spec.nodeName of the pod
                 from configMap settings
    Requests:    cpu 1
    Limits:      nvidia.com/gpu 8
  + Host port:   20181
  +              20182
  +              22182
    Volumes:     /data from train of persistentVolumeClaim training-data
  +              /t9k/supervisor from emptyDir
  +              /t9k/progress from emptyDir
  +              /t9k/progress-token from downwardAPI
  + Init:        wait-for-peers, image controller
  +                wait-dns --install=/t9k/supervisor --timeout 10m0s digits-worker-0.digits.default.svc.cluster.local
  + Sidecar:     progress, image controller
  +                receive-progress --port=22182 --token-file=/t9k/progress-token/token --reports=/t9k/progress/reports
    Init:        fetch, image fetch
                   --all
    Container:   logs, image logs
    Nodes:       gpu=a100
  + Finalizer:   batch.tensorstack.dev/leader
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("unexpected summary (-want +got):\n%s", diff)
	}
}

func TestNotes(t *testing.T) {
	const unknownUID = "00000000-0000-0000-0000-000000000000 stands for the UID, which the API server chooses."
	deepSpeed := func(others string) string {
		return "apiVersion: batch.tensorstack.dev/v1beta1\nkind: DeepSpeedJob\nmetadata: {name: words}\nspec: {" + others +
			"worker: {replicas: 2, template: {spec: {containers: [{name: worker, image: training}]}}}}\n"
	}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"the UID is unknown": {job + spec(2, ""), []string{unknownUID}},
		"the UID of an existing job is known": {
			strings.Replace(job, "{name: digits}", "{name: digits, uid: a-uid}", 1) + spec(2, ""), nil,
		},
		"ports depend on the UID": {
			strings.Replace(job+spec(2, ""), "containers", "hostNetwork: true, containers", 1),
			[]string{unknownUID, "The ports of pods on the network of a node depend on the UID."},
		},
		"a paused job has no pods": {
			job + spec(2, "runMode: {pause: {enabled: true}}, "),
			[]string{"The job is paused. To create its pods, set spec.runMode.pause.enabled to false."},
		},
		"a job in debug mode does not train": {
			job + spec(2, "runMode: {debug: {enabled: true}}, "),
			[]string{"The job is in debug mode: its replicas wait for a user instead of training.", unknownUID},
		},
		"another controller manages the job": {
			job + spec(2, "managedBy: example.com/controller, "),
			[]string{"example.com/controller manages the job: spec.managedBy. The controller creates nothing."},
		},
		"MultiKueue needs a queue": {
			job + spec(2, "managedBy: kueue.x-k8s.io/multikueue, "),
			[]string{"MultiKueue manages the job, which needs the label kueue.x-k8s.io/queue-name."},
		},
		"MultiKueue runs the job elsewhere": {
			strings.Replace(job, "{name: digits}", "{name: digits, labels: {kueue.x-k8s.io/queue-name: lab}}", 1) +
				spec(2, "managedBy: kueue.x-k8s.io/multikueue, "),
			[]string{"MultiKueue runs the job in another cluster. Its pods are created there."},
		},
		"the pods of a gang depend on its Queue": {
			job + spec(2, "scheduler: {t9kScheduler: {queue: lab}}, "),
			[]string{
				"A Queue with a quota or with nodes adds a scheduling gate to the pods. A priority adds a PriorityClass.",
				unknownUID,
			},
		},
		"the pods of a job for Kueue depend on its flavors": {
			strings.Replace(job, "{name: digits}", "{name: digits, labels: {kueue.x-k8s.io/queue-name: lab}}", 1) + spec(2, ""),
			[]string{
				"Kueue adds the nodes of the flavors that it assigns. The classes of the cluster determine the priority of the " +
					"Workload.", unknownUID,
			},
		},
		"a Workload that others create is not known": {
			strings.Replace(job, "{name: digits}", "{name: digits, labels: {kueue.x-k8s.io/queue-name: lab, "+
				"kueue.x-k8s.io/prebuilt-workload-name: other}}", 1) + spec(2, ""),
			[]string{
				"2 of 2 replicas are not running yet: workload other, which was to be created for the job, does not exist.",
			},
		},
		"an elastic job can grow": {
			deepSpeed("config: {run: {python: [train.py]}}, elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, " +
				"expectedReplicas: 3}, "),
			[]string{"The job is elastic. It begins with 3 replicas, and can have 2 to 4.", unknownUID},
		},
		"a part of the spec has no effect": {
			job + spec(2, "elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, expectedReplicas: 3}, "),
			[]string{
				unknownUID, "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas.",
			},
		},
		"a job without replicas does not run": {
			job + spec(0, ""), []string{"every replicaSpec has 0 replicas: nothing can run."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(t, tc.text)
			if err := plan.Problem(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, plan.Notes()); diff != "" {
				t.Errorf("unexpected notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProblem(t *testing.T) {
	const want = `the controller creates no pods of ptjob/digits: InvalidTemplate: the template of type "worker" has a ` +
		`container named "wait-for-peers", which is reserved`
	plan := planOf(t, job+strings.Replace(spec(2, ""), "[{name: pytorch",
		"[{name: wait-for-peers, image: x}, {name: pytorch", 1))
	if err := plan.Problem(); err == nil || err.Error() != want {
		t.Errorf("the problem is\n%v, want\n%s", err, want)
	}
	if len(plan.Replicas) > 0 {
		t.Errorf("the plan has %d pods, want none", len(plan.Replicas))
	}
}

func TestUnstructured(t *testing.T) {
	plan := planOf(t, job+spec(1, ""))
	got, err := Unstructured(&corev1.Service{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{}, "spec": map[string]any{},
	}, got.Object); diff != "" {
		t.Errorf("unexpected object (-want +got):\n%s", diff)
	}
	for _, object := range plan.All() {
		if got, err := Unstructured(object); err != nil || got.GetName() != object.GetName() {
			t.Errorf("the object is %v, want the name %s: %v", got, object.GetName(), err)
		}
	}
}
