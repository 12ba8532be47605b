package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// pyTorchJob returns the manifest of a PyTorchJob whose spec has the given fields.
func pyTorchJob(spec string) string {
	return "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: digits}, spec: {" + spec + "}}\n"
}

const container = "{spec: {containers: [{name: pytorch, image: training, command: [python3, train.py]}]}}"

func TestManifestsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ manifest, want string }{
		"no YAML":                     {"a: [", "did not find expected node content"},
		"no object":                   {"a: b\n", "line 1: a document is no object of Kubernetes: it has no kind"},
		"a text that looks like null": {"!", "line 1: a document is no object of Kubernetes: it has no kind"},
		"an item that is no object": {
			"{kind: List, items: [{a: b}]}", "an item of a List: line 1: a document is no object of Kubernetes",
		},
		"an object behind a separator": {"kind: A\n--- {kind: B}\n", "invalid Yaml document separator: {kind: B}"},
		"another separator":            {"kind: A\n...\nkind: B\n", "the separator ... between them: use ---"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Manifest([]byte(tc.manifest), Options{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestJobsThatCannotBeConverted(t *testing.T) {
	t.Parallel()
	mpiJob := func(launcher string) string {
		return "{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: digits}, spec: {mpiReplicaSpecs: {" +
			"Launcher: {template: {spec: {containers: [{name: a, image: deepspeed, " + launcher + "}]}}}, " +
			"Worker: {replicas: 1, template: {spec: {containers: [{name: a, image: deepspeed}]}}}}}}"
	}
	for name, tc := range map[string]struct{ manifest, want string }{
		"a value of the wrong type": {
			pyTorchJob("pytorchReplicaSpecs: {Worker: {replicas: two}}"), "cannot unmarshal string",
		},
		"a field twice": {
			"kind: TFJob\napiVersion: kubeflow.org/v1\nspec: {}\nstatus: {}\nspec: {}\n", `"spec" already set`,
		},
		"no replicas": {pyTorchJob("runPolicy: {}"), "spec.pytorchReplicaSpecs has no replicas"},
		"a type that Kubeflow lacks": {
			pyTorchJob("pytorchReplicaSpecs: {PS: {}}"), "spec.pytorchReplicaSpecs.PS is a type that Kubeflow does not have",
		},
		"a template without containers": {
			pyTorchJob("pytorchReplicaSpecs: {Worker: }"), "spec.pytorchReplicaSpecs.Worker.template has no container",
		},
		"a type twice": {
			pyTorchJob("pytorchReplicaSpecs: {Worker: {template: " + container + "}, worker: {template: " + container + "}}"),
			"Worker and spec.pytorchReplicaSpecs.worker are the same type",
		},
		"an elastic job without workers": {
			pyTorchJob("elasticPolicy: {}, pytorchReplicaSpecs: {Master: {template: {spec: {containers: " +
				"[{name: pytorch, command: [torchrun, a.py]}]}}}}"), "spec.elasticPolicy needs replicas of the type Worker",
		},
		"more unknown fields than the decoder lists": {
			pyTorchJob(strings.Join(numbered(150), ", ")), "100 or more unknown fields",
		},
		"an MPIJob whose command is in the image": {mpiJob(""), "containers[0] has no command: set the one of its image"},
		"an MPIJob with another launcher": {
			mpiJob("command: [horovodrun, python, train.py]"), "its launcher runs horovodrun: only programs",
		},
		"an MPIJob with a flag of mpirun that is not known": {
			mpiJob("command: [mpirun, --new, python, train.py]"), "mpirun has the flag --new, which is not known",
		},
		"an MPIJob with a script that runs mpirun": {
			mpiJob(`command: [sh, -c, "cd /code; mpirun python ds.py"]`),
			"more than a plain command. If it trains with DeepSpeed, write a DeepSpeedJob whose config.run has the program",
		},
		"an MPIJob with a script of NCCL tests": {
			mpiJob(`command: [sh, -c, "mpirun -np 2 ./all_reduce_perf && mpirun -np 2 ./all_gather_perf"]`),
			"Other MPI programs, such as NCCL tests, have no counterpart: let mpi-operator run them",
		},
		"an MPIJob without a launcher": {
			strings.ReplaceAll(mpiJob("args: [mpirun, a]"), "Launcher", "Worker2"), "Worker2 is a type that",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := Manifest([]byte(tc.manifest), Options{})
			if err != nil || len(objects) != 1 {
				t.Fatalf("unexpected objects %v, error %v", objects, err)
			}
			if err := objects[0].Err; err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
			if text := YAML(objects); !strings.HasPrefix(string(text), "# Not converted: ") {
				t.Errorf("the result is %q", text)
			}
		})
	}
}

func TestFieldsInAnotherPlace(t *testing.T) {
	t.Parallel()
	const replicas = "pytorchReplicaSpecs: {Master: {template: " + container + "}, Worker: {template: {spec: {" +
		"initContainers: [{name: data, image: data}], containers: [{name: a, image: a}, {name: pytorch, image: training"
	const worker = "spec.pytorchReplicaSpecs.Worker"
	const nowhere = "Neither Kubeflow nor Kubernetes has this field."
	elsewhere := func(place string) string {
		return "Neither Kubeflow nor Kubernetes has this field here. The closest field of this name is " + place + "."
	}
	for name, tc := range map[string]struct{ spec, field, want string }{
		"a field of a container that is beside the containers names the place of the first one": {
			replicas + "}], imagePullPolicy: Always}}}}",
			worker + ".template.spec.imagePullPolicy", elsewhere(worker + ".template.spec.containers[0].imagePullPolicy"),
		},
		"a field of a pod that is in a container names the pod of the container": {
			replicas + ", nodeSelector: {a: b}}]}}}}",
			worker + ".template.spec.containers[1].nodeSelector", elsewhere(worker + ".template.spec.nodeSelector"),
		},
		"a field of a struct that is not set names its place in this struct": {
			replicas + ", runAsUser: 1000}]}}}}",
			worker + ".template.spec.containers[1].runAsUser",
			elsewhere(worker + ".template.spec.containers[1].securityContext.runAsUser"),
		},
		"a field of Kubeflow that is in a template names the place outside of it": {
			replicas + "}]}, replicas: 2}}}",
			worker + ".template.replicas", elsewhere(worker + ".replicas"),
		},
		"a field that exists nowhere is only unknown": {
			replicas + ", envs: []}]}}}}", worker + ".template.spec.containers[1].envs", nowhere,
		},
		"a policy in a replica names its place in the run policy": {
			replicas + "}]}}, cleanPodPolicy: All}}", worker + ".cleanPodPolicy", elsewhere("spec.runPolicy.cleanPodPolicy"),
		},
		"a field of a struct within a struct that is not set is only unknown": {
			replicas + ", port: 22}]}}}}", worker + ".template.spec.containers[1].port", nowhere,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := Manifest([]byte(pyTorchJob(tc.spec)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, remark := range objects[0].Remarks {
				if remark.Effect == NotMapped {
					got[remark.Field] = remark.Text
				}
			}
			if diff := cmp.Diff(map[string]string{tc.field: tc.want}, got); diff != "" {
				t.Errorf("unexpected remarks (-want +got):\n%s", diff)
			}
		})
	}
}

// convertedJob converts a manifest of one job. It also returns the spec of the result.
func convertedJob(t *testing.T, manifest string) (object Object, spec map[string]any) {
	t.Helper()
	objects, err := Manifest([]byte(manifest), Options{})
	if err != nil || len(objects) != 1 || objects[0].Err != nil {
		t.Fatalf("unexpected objects %+v, error %v, of\n%s", objects, err, manifest)
	}
	content, err := JSON(objects)
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Spec map[string]any }
	if err := json.Unmarshal(content, &result); err != nil {
		t.Fatal(err)
	}
	return objects[0], result.Spec
}

func TestPoliciesInTheSpec(t *testing.T) {
	t.Parallel()
	const policies = "cleanPodPolicy: All, ttlSecondsAfterFinished: 600, activeDeadlineSeconds: 60, backoffLimit: 2, " +
		"schedulingPolicy: {queue: vision, priorityClass: high}"
	const others = "runPolicy: {cleanPodPolicy: Running, ttlSecondsAfterFinished: 5, activeDeadlineSeconds: 6, " +
		"backoffLimit: 7, schedulingPolicy: {queue: speech}}"
	mpiJob := func(version string) string {
		return "{apiVersion: kubeflow.org/" + version + ", kind: MPIJob, metadata: {name: digits}, spec: {%s, " +
			"mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: a, image: a, command: [deepspeed, a.py]}]}}}}}}"
	}
	for name, tc := range map[string]struct {
		job string
		// readsCleanPodPolicy is whether Kubeflow still reads cleanPodPolicy in the spec.
		readsCleanPodPolicy bool
	}{
		"a PyTorchJob keeps the policies in its spec": {
			job: pyTorchJob("%s, pytorchReplicaSpecs: {Master: {template: " + container + "}}"),
		},
		"a TFJob keeps the policies in its spec": {
			job: "{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: digits}, spec: {%s, tfReplicaSpecs: {Worker: " +
				"{template: " + container + "}}}}",
		},
		"an MPIJob of training-operator keeps the policies in its spec": {job: mpiJob("v1"), readsCleanPodPolicy: true},
		"an MPIJob of mpi-operator keeps the policies in its spec":      {job: mpiJob("v2beta1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := []string{
				"activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "schedulingPolicy", "ttlSecondsAfterFinished",
			}
			has := func(object Object, effect Effect, field string) bool {
				return slices.ContainsFunc(object.Remarks, func(r Remark) bool { return r.Effect == effect && r.Field == field })
			}

			_, want := convertedJob(t, fmt.Sprintf(tc.job, "runPolicy: {"+policies+"}"))
			object, got := convertedJob(t, fmt.Sprintf(tc.job, policies))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("policies in the spec differ from the same ones in runPolicy (-want +got):\n%s", diff)
			}
			old := slices.DeleteFunc(slices.Clone(fields), func(field string) bool {
				return tc.readsCleanPodPolicy && field == "cleanPodPolicy"
			})
			if field := "spec." + strings.Join(old, ", spec."); !has(object, Changed, field) {
				t.Errorf("no remark names %s: %q", field, object.Remarks)
			}
			for _, field := range []string{"spec.backoffLimit", "spec.schedulingPolicy.queue"} {
				if !has(object, Changed, field) {
					t.Errorf("no remark names %s: %q", field, object.Remarks)
				}
			}

			_, want = convertedJob(t, fmt.Sprintf(tc.job, others))
			object, got = convertedJob(t, fmt.Sprintf(tc.job, policies+", "+others))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("policies in the spec change those of runPolicy (-want +got):\n%s", diff)
			}
			for _, field := range fields {
				if !has(object, NotMapped, "spec."+field) {
					t.Errorf("no remark shows that runPolicy overrides spec.%s: %q", field, object.Remarks)
				}
			}
		})
	}
}

func TestFieldsThatTheAPIServerRejects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 54)
	replicas := "pytorchReplicaSpecs: {Worker: {replicas: 12, template: " + container + "}}"
	job := func(kind, metadata, spec string) string {
		return "{apiVersion: kubeflow.org/v1, kind: " + kind + ", metadata: {" + metadata + "}, spec: {" + spec + "}}"
	}
	const label, tooLong = "metadata.name must be a DNS-1035 label", "metadata.name is too long: the pods are named"
	for name, tc := range map[string]struct {
		manifest string
		// want maps each field that needs a remark to a part of the text of the remark.
		want map[string]string
	}{
		"a remark shows why a PyTorchJob needs another name": {
			job("PyTorchJob", "name: 2nd-run.v1", replicas), map[string]string{"metadata.name": label},
		},
		"a remark shows why a TFJob needs another name": {
			job("TFJob", "name: a.b", "tfReplicaSpecs: {Chief: {template: "+container+"}}"),
			map[string]string{"metadata.name": label},
		},
		"a remark shows why a TFJob needs other replicas": {
			job("TFJob", "name: a", "tfReplicaSpecs: {PS: {template: "+container+"}}"),
			map[string]string{"spec.tfReplicaSpecs": "a replica of type chief or worker is required"},
		},
		"a remark shows why an MPIJob needs another name": {
			job("MPIJob", "name: a.b", "mpiReplicaSpecs: {Launcher: {template: {spec: {containers: "+
				"[{name: a, image: a, command: [deepspeed, a.py]}]}}}}"),
			map[string]string{"metadata.name": label},
		},
		"the longest name needs no remark": {job("PyTorchJob", "name: "+long[1:], replicas), nil},
		"a remark shows that a name is too long for the pods of the last workers": {
			job("PyTorchJob", "name: "+long, replicas), map[string]string{"metadata.name": tooLong},
		},
		"a remark shows why a generated name needs another beginning": {
			job("PyTorchJob", "generateName: 2nd-", replicas), map[string]string{"metadata.generateName": label},
		},
		"remarks show why fields need other values": {
			job("PyTorchJob", "name: a", "runPolicy: {backoffLimit: -1}, pytorchReplicaSpecs: {Worker: {restartPolicy: Maybe, "+
				"template: "+container+"}}"),
			map[string]string{
				"spec.pytorchReplicaSpecs.Worker.restartPolicy": `Unsupported value: "Maybe"`,
				"spec.runPolicy.backoffLimit":                   "should be greater than or equal to 0",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, _ := convertedJob(t, tc.manifest)
			got := map[string]string{}
			for _, r := range object.Remarks {
				if r.Effect == Rejected {
					got[r.Field] = r.Text
				}
			}
			contains := cmp.Comparer(func(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) })
			if diff := cmp.Diff(tc.want, got, contains, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected remarks (-want +got):\n%s", diff)
			}
		})
	}
}

// numbered returns the given number of fields with different names, in YAML.
func numbered(count int) []string {
	fields := make([]string, 0, count)
	for i := range count {
		fields = append(fields, "f"+strings.Repeat("x", i)+": 1")
	}
	return fields
}

func TestMPIJobsThatDoNotShowDeepSpeed(t *testing.T) {
	t.Parallel()
	const manifest = `{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {name: digits}, spec: {mpiReplicaSpecs: {
		Launcher: {template: {spec: {containers: [{name: mpi, image: training, command: [mpirun, python3, train.py]}]}}},
		Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: training}]}}}}}}`
	for isDeepSpeed, want := range map[bool]string{false: "", true: "DeepSpeedJob"} {
		objects, err := Manifest([]byte(manifest), Options{DeepSpeed: isDeepSpeed})
		if err != nil {
			t.Fatal(err)
		}
		if objects[0].Result != want || (objects[0].Err == nil) != isDeepSpeed {
			t.Errorf("with the option %t, the result is %q, error %v", isDeepSpeed, objects[0].Result, objects[0].Err)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	const other = "---\n# A comment.\nkind: ConfigMap\napiVersion: v1\ndata: {a: 'yes', b: '1'}\n"
	const unknown = "---\napiVersion: kubeflow.org/v1\nkind: PaddleJob\n"
	job := pyTorchJob("pytorchReplicaSpecs: {Worker: {template: " + container + "}}")
	for name, tc := range map[string]struct {
		manifest string
		kinds    []string
	}{
		"one object":             {job, []string{"PyTorchTrainingJob"}},
		"several objects":        {job + other + unknown, []string{"List", "PyTorchTrainingJob", "ConfigMap"}},
		"nothing that converts":  {unknown, nil},
		"comments are no object": {"# only a comment\n" + other, []string{"ConfigMap"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := Manifest([]byte(tc.manifest), Options{})
			if err != nil {
				t.Fatal(err)
			}
			content, err := JSON(objects)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			if len(content) > 0 {
				var result struct {
					Kind  string
					Items []struct{ Kind string }
				}
				if err := json.Unmarshal(content, &result); err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, result.Kind)
				for _, item := range result.Items {
					kinds = append(kinds, item.Kind)
				}
			}
			if diff := cmp.Diff(tc.kinds, kinds); diff != "" {
				t.Errorf("unexpected kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAManifestInJSONBecomesBlocksOfYAML(t *testing.T) {
	t.Parallel()
	manifest := `{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "digits"}, "spec": {
		"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "training"}]}}}}}}`
	objects, err := Manifest([]byte(manifest), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := YAML(objects)
	const want = `apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata:
  name: "digits"
spec:
  replicaSpecs:
    - type: worker
      template:
        spec:
          containers:
            - name: "tensorflow"
              image: "training"
  runPolicy:
    # Kubeflow's default: spec.runPolicy.cleanPodPolicy: None. The default here is Unfinished, which
    #   deletes the pods that still run when the job ends.
    cleanUpPolicy: None
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}
