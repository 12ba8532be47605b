package repository

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/convert"
)

// kubeflowJobs maps each kind of Kubeflow to a job that sets few fields. testdata/kubeflow-fields.yaml has a section
// for each kind.
var kubeflowJobs = map[string]string{
	"PyTorchJob": `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits}
spec:
  elasticPolicy: {}
  pytorchReplicaSpecs:
    Worker:
      template: {spec: {containers: [{name: pytorch, image: training, command: [torchrun, train.py]}]}}
`,
	"TFJob": `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: digits}
spec:
  tfReplicaSpecs:
    Worker:
      template: {spec: {containers: [{name: tensorflow, image: training}]}}
`,
	"MPIJob": `
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: digits}
spec:
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: mpi, image: training, command: [mpirun, python3, deepspeed.py]}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: mpi, image: training}]}}
`,
}

// sharedFields is the section of testdata/kubeflow-fields.yaml with the fields that all kinds in kubeflowJobs have.
const sharedFields = "All kinds of training-operator and mpi-operator"

// kubeflowValues maps the path of each field to a value that differs from the default of the field. If a field
// belongs to replicas, the test sets it in all types.
var kubeflowValues = map[string]string{
	"replicas":                                          "3",
	"template":                                          `{"spec": {"containers": [{"name": "a", "image": "b", "command": ["mpirun", "deepspeed"]}]}}`,
	"restartPolicy":                                     "Always",
	"runPolicy.cleanPodPolicy":                          "All",
	"runPolicy.ttlSecondsAfterFinished":                 "60",
	"runPolicy.activeDeadlineSeconds":                   "60",
	"runPolicy.backoffLimit":                            "4",
	"runPolicy.suspend":                                 "true",
	"runPolicy.managedBy":                               "kueue.x-k8s.io/multikueue",
	"runPolicy.schedulingPolicy.minAvailable":           "2",
	"runPolicy.schedulingPolicy.queue":                  "vision",
	"runPolicy.schedulingPolicy.minResources":           `{"cpu": "2"}`,
	"runPolicy.schedulingPolicy.priorityClass":          "high",
	"runPolicy.schedulingPolicy.scheduleTimeoutSeconds": "60",

	"nprocPerNode":               `"2"`,
	"pytorchReplicaSpecs.Master": `{"template": {"spec": {"containers": [{"name": "pytorch", "command": ["torchrun", "a"]}]}}}`,
	"pytorchReplicaSpecs.Worker": `{"template": {"spec": {"containers": [{"name": "other", "command": ["torchrun", "a"]}]}}}`,
	"elasticPolicy.minReplicas":  "2",
	"elasticPolicy.maxReplicas":  "2",
	"elasticPolicy.rdzvBackend":  "etcd",
	"elasticPolicy.rdzvPort":     "29400",
	"elasticPolicy.rdzvHost":     "etcd",
	"elasticPolicy.rdzvId":       "digits",
	"elasticPolicy.rdzvConf":     `[{"key": "a", "value": "b"}]`,
	"elasticPolicy.standalone":   "true",
	"elasticPolicy.nProcPerNode": "2",
	"elasticPolicy.maxRestarts":  "5",
	"elasticPolicy.metrics":      `[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]`,

	"tfReplicaSpecs.PS":        `{"template": {"spec": {"containers": [{"name": "tensorflow"}]}}}`,
	"tfReplicaSpecs.Worker":    `{"template": {"spec": {"containers": [{"name": "other"}]}}}`,
	"tfReplicaSpecs.Chief":     `{"template": {"spec": {"containers": [{"name": "tensorflow"}]}}}`,
	"tfReplicaSpecs.Master":    `{"template": {"spec": {"containers": [{"name": "tensorflow"}]}}}`,
	"tfReplicaSpecs.Evaluator": `{"template": {"spec": {"containers": [{"name": "tensorflow"}]}}}`,
	"successPolicy":            "AllWorkers",
	"enableDynamicWorker":      "true",

	"slotsPerWorker":           "2",
	"runLauncherAsWorker":      "true",
	"mpiReplicaSpecs.Launcher": `{"template": {"spec": {"containers": [{"name": "a", "command": ["deepspeed", "a"]}]}}}`,
	"mpiReplicaSpecs.Worker":   `{"replicas": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}`,
	"sshAuthMountPath":         "/home/mpiuser/.ssh",
	"launcherCreationPolicy":   "WaitForWorkersReady",
	"waitForWorkers":           "true",
	"mpiImplementation":        "Intel",
	"cleanPodPolicy":           "All",
	"mainContainer":            "main",
}

// TestConvertMapsOrNamesEveryFieldOfKubeflow sets each field of Kubeflow's kinds in a job. The result of kubectl train
// convert must change, or a remark must name the field.
func TestConvertMapsOrNamesEveryFieldOfKubeflow(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/kubeflow-fields.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string][]string
	if err := yaml.UnmarshalStrict(content, &sections); err != nil {
		t.Fatal(err)
	}
	unused := maps.Clone(kubeflowValues)
	for _, kind := range slices.Sorted(maps.Keys(kubeflowJobs)) {
		for _, field := range slices.Concat(sections[sharedFields], sections[kind]) {
			value, ok := kubeflowValues[field]
			delete(unused, field)
			if !ok {
				t.Errorf("this test has no value of %s", field)
				continue
			}
			t.Run(kind+"/"+field, func(t *testing.T) {
				t.Parallel()
				without, _ := converted(t, read(t, kubeflowJobs[kind]))
				job := read(t, kubeflowJobs[kind])
				paths := set(t, job, field, value)
				with, remarks := converted(t, job)
				if with != without {
					return
				}
				if !slices.ContainsFunc(remarks, func(r convert.Remark) bool { return slices.Contains(paths, r.Field) }) {
					t.Errorf("%s does not change the result, and none of the remarks names it: %q", field, remarks)
				}
			})
		}
	}
	if len(unused) > 0 {
		t.Errorf("testdata/kubeflow-fields.yaml has none of the fields %q", slices.Sorted(maps.Keys(unused)))
	}
}

// read returns the object in a YAML manifest.
func read(t *testing.T, manifest string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// set sets a field in the spec of a job or in its replicas. It returns the paths of the field.
func set(t *testing.T, job map[string]any, field, text string) []string {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	spec := job["spec"].(map[string]any)
	if slices.Contains([]string{"replicas", "template", "restartPolicy"}, field) {
		var paths []string
		for name, specs := range spec {
			if !strings.HasSuffix(name, "ReplicaSpecs") {
				continue
			}
			for replicas, spec := range specs.(map[string]any) {
				spec.(map[string]any)[field] = value
				paths = append(paths, "spec."+name+"."+replicas+"."+field)
			}
		}
		return paths
	}
	names := strings.Split(field, ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := spec[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			spec[name] = inner
		}
		spec = inner
	}
	spec[names[len(names)-1]] = value
	return []string{"spec." + field}
}

// converted converts a job, and returns the result and the remarks. The result is JSON, so it has no comments.
func converted(t *testing.T, job map[string]any) (string, []convert.Remark) {
	t.Helper()
	content, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := convert.Manifest(content, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1 || objects[0].Err != nil {
		t.Fatalf("%s cannot be converted: %+v", content, objects)
	}
	result, err := convert.JSON(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(result), objects[0].Remarks
}
