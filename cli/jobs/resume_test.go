package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/jobs"
)

func TestResumeWithArgs(t *testing.T) {
	const deepSpeed = "{kind: DeepSpeedJob, metadata: {name: words}, spec: {worker: {template: {}}, config: {"
	const resumes = `{"op":"test","path":"/metadata/uid","value":""},{"op":"add","path":"/spec/runMode/pause/enabled","value":false}]`
	tests := map[string]struct {
		manifest    string
		types       []string
		wantPatch   string
		wantChanged []string
		wantErr     string
	}{
		"the types with the command line of the leader change": {
			manifest: masterLast,
			wantPatch: `[{"op":"test","path":"/spec/replicaSpecs/0/type","value":"worker"},` +
				`{"op":"test","path":"/spec/replicaSpecs/0/template/spec/containers/1/name","value":"pytorch"},` +
				`{"op":"add","path":"/spec/replicaSpecs/0/template/spec/containers/1/args","value":["-e"]},` +
				`{"op":"test","path":"/spec/replicaSpecs/1/type","value":"master"},` +
				`{"op":"test","path":"/spec/replicaSpecs/1/template/spec/containers/0/name","value":"first"},` +
				`{"op":"add","path":"/spec/replicaSpecs/1/template/spec/containers/0/args","value":["-e"]},` + resumes,
			wantChanged: []string{"worker", "master"},
		},
		"only the given types change": {
			manifest: masterLast, types: []string{"master"},
			wantPatch: `[{"op":"test","path":"/spec/replicaSpecs/1/type","value":"master"},` +
				`{"op":"test","path":"/spec/replicaSpecs/1/template/spec/containers/0/name","value":"first"},` +
				`{"op":"add","path":"/spec/replicaSpecs/1/template/spec/containers/0/args","value":["-e"]},` + resumes,
			wantChanged: []string{"master"},
		},
		"an unknown type is an error": {
			manifest: masterLast, types: []string{"chief"},
			wantErr: `ptjob/digits has no type "chief": its types are ["master" "worker"]`,
		},
		"the module of a DeepSpeedJob changes": {
			manifest:    deepSpeed + "run: {module: [train]}}}}",
			wantPatch:   `[{"op":"replace","path":"/spec/config/run/module","value":["-e"]},` + resumes,
			wantChanged: []string{"worker"},
		},
		"the program of a DeepSpeedJob changes": {
			manifest:    deepSpeed + "run: {exec: [train]}}}}",
			wantPatch:   `[{"op":"replace","path":"/spec/config/run/exec","value":["-e"]},` + resumes,
			wantChanged: []string{"worker"},
		},
		"resumeSpecs apply only after a pause of a started job": {
			manifest: `{kind: DeepSpeedJob, metadata: {name: words}, spec: {config: {run: {python: [a.py]}}, worker: {template: {}},
				runMode: {pause: {enabled: true, resumeSpecs: [{type: worker, args: [b.py]}]}}}}`,
			wantPatch:   `[{"op":"replace","path":"/spec/config/run/python","value":["-e"]},` + resumes,
			wantChanged: []string{"worker"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			patch, changed, err := jobs.ResumeWithArgs(parse(t, test.manifest), test.types, []string{"-e"})
			message := ""
			if err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff(test.wantErr, message); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.wantPatch, string(patch)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.wantChanged, changed); diff != "" {
				t.Error(diff)
			}
		})
	}
}
