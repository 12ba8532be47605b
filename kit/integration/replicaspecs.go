package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

// newImage is a patch that changes the template of ReplicaSpecs("type: worker") and nothing else.
const newImage = "spec:\n" +
	"  replicaSpecs: [{type: worker, template: {spec: {containers: [{name: main, image: other}]}}}]\n"

// ReplicaSpecs returns a patch that sets spec.replicaSpecs, for the kinds that have the field. Each entry is a YAML
// flow mapping without the braces. It has the fields of one item except the template, which ReplicaSpecs adds.
// Further fields of the spec can be appended to the patch.
func ReplicaSpecs(entries ...string) string {
	var patch strings.Builder
	patch.WriteString("spec:\n  replicaSpecs:\n")
	for _, entry := range entries {
		fmt.Fprintf(&patch, "  - {%s, template: {spec: {containers: [{name: main, image: training}]}}}\n", entry)
	}
	return patch.String()
}

// MainContainer returns a patch that sets spec.replicaSpecs to one worker with one container. In addition to its name
// and image, the container has the given fields, which are a YAML flow mapping without the braces.
func MainContainer(fields string) string {
	return Containers("{name: main, image: training, " + fields + "}")
}

// Containers returns a patch that sets spec.replicaSpecs to one worker with the given containers. Each container is a
// YAML flow mapping.
func Containers(containers ...string) string {
	return "spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [" + strings.Join(containers, ", ") +
		"]}}}]}"
}

// TenDigits returns a patch that gives the job a long name and sets the given fields of its workers. With this name,
// the name of a pod is valid if its index has one digit, and too long if its index has two digits.
func TenDigits(fields string) string {
	return "metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}\n" + ReplicaSpecs("type: worker, "+
		fields)
}

// BadReplicaSpecs returns invalid values of spec.replicaSpecs for the kinds that have the field.
func BadReplicaSpecs() []TableEntry {
	return []TableEntry{
		Entry("no replicaSpecs", `spec: {replicaSpecs: null}`,
			"spec.replicaSpecs", "Required value"),
		Entry("empty replicaSpecs", `spec: {replicaSpecs: []}`,
			"spec.replicaSpecs", "should have at least 1 items"),
		Entry("two replicaSpecs with the same type", ReplicaSpecs("type: worker", "type: worker"),
			"spec.replicaSpecs[1]", `Duplicate value: {"type":"worker"}`),
		Entry("negative replicas", ReplicaSpecs("type: worker, replicas: -1"),
			"spec.replicaSpecs[0].replicas", "should be greater than or equal to 0"),
		Entry("more than 2,000 replicas in total", ReplicaSpecs("type: ps", "type: worker, replicas: 2000"),
			"spec.replicaSpecs", "at most 2000 replicas in total are allowed"),
		Entry("an unknown restartPolicy", ReplicaSpecs("type: worker, restartPolicy: Sometimes"),
			"spec.replicaSpecs[0].restartPolicy", `supported values: "Always", "OnFailure", "Never", "ExitCode"`),
		Entry("a template with an empty list of containers",
			`spec: {replicaSpecs: [{type: worker, template: {spec: {containers: []}}}]}`,
			"spec.replicaSpecs[0].template", "at least one container is required"),
		Entry("a template without a pod spec", `spec: {replicaSpecs: [{type: worker, template: {}}]}`,
			"spec.replicaSpecs[0].template", "at least one container is required"),
		Entry("no template", `spec: {replicaSpecs: [{type: worker}]}`,
			"spec.replicaSpecs[0].template", "Required value"),
		Entry("more than 64 tolerations", `spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [{name: main}],
			tolerations: `+items(65, "{key: a%d}")+`}}}]}`,
			"spec.replicaSpecs[0].template.spec.tolerations", "must have at most 64 items"),
		Entry("debug of a type that the job does not have",
			`spec: {runMode: {debug: {enabled: true, replicaSpecs: [{type: ps}]}}}`,
			"spec.runMode", "runMode.debug.replicaSpecs names a type that is not among replicaSpecs"),
		Entry("resumeSpecs of a type that the job does not have", `spec: {runMode: {pause: {resumeSpecs: [{type: ps}]}}}`,
			"spec.runMode", "runMode.pause.resumeSpecs names a type that is not among replicaSpecs"),
		Entry("a job name too long for its last pod's name", TenDigits("replicas: 11"),
			"metadata.name", "metadata.name is too long"),
	}
}

// GoodReplicaSpecs returns valid values of spec.replicaSpecs for the kinds that have the field.
func GoodReplicaSpecs() []TableEntry {
	return []TableEntry{
		Entry("a type with 0 replicas", ReplicaSpecs("type: worker", "type: ps, replicas: 0")),
		Entry("2,000 replicas in total", ReplicaSpecs("type: ps", "type: worker, replicas: 1999")),
		Entry("a job name whose last pod's name just fits", TenDigits("replicas: 10")),
		Entry("2,000 replicas with a long template", `spec: {replicaSpecs: [{type: worker, replicas: 2000, template: {spec: {
			tolerations: `+items(32, "{key: a%d}")+`, containers: [{name: main, image: training,
			env: `+items(300, "{name: A%d, value: a}")+`, args: [`+strings.Repeat("a", 20_000)+`]}]}}}]}`),
		Entry("labels and annotations on a template",
			`spec: {replicaSpecs: [{type: worker, template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {containers: [{name: main, image: training}]}}}]}`),
	}
}

// RefusedReplicaSpecChanges returns changes to spec.replicaSpecs that the API server rejects for the kinds that have
// the field.
func RefusedReplicaSpecChanges() []TableEntry {
	return []TableEntry{
		Entry("a template of a job that is not paused", ReplicaSpecs("type: worker"), newImage,
			"spec.replicaSpecs", "replicaSpecs can be changed only while the job is paused"),
		Entry("replicas of a job that is not paused", ReplicaSpecs("type: worker"), ReplicaSpecs("type: worker, replicas: 3"),
			"spec.replicaSpecs", "replicaSpecs can be changed only while the job is paused"),
		Entry("a template together with pausing", ReplicaSpecs("type: worker"),
			newImage+"  runMode: {pause: {enabled: true}}\n",
			"spec.replicaSpecs", "replicaSpecs can be changed only while the job is paused: wait for its condition Paused"),
		Entry("the type of a replicaSpec, even while paused", Paused, ReplicaSpecs("type: chief"), "spec.replicaSpecs",
			"the types of replicaSpecs cannot be changed"),
		Entry("an additional type, even while paused", Paused, ReplicaSpecs("type: worker", "type: ps"), "spec.replicaSpecs",
			"the types of replicaSpecs cannot be changed"),
	}
}

// AllowedReplicaSpecChanges returns changes to spec.replicaSpecs that the API server accepts for the kinds that have
// the field.
func AllowedReplicaSpecChanges() []TableEntry {
	return []TableEntry{
		Entry("a template while paused", Paused, newImage),
		Entry("replicas while paused", ReplicaSpecs("type: worker")+"  runMode: {pause: {enabled: true}}\n",
			ReplicaSpecs("type: worker, replicas: 3")),
		Entry("a template together with resuming", Paused, newImage+"  runMode: {pause: {enabled: false}}\n"),
	}
}
