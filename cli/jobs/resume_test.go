package jobs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/jobs"
)

func TestResumeWithArgs(t *testing.T) {
	const deepSpeed = "{kind: DeepSpeedJob, metadata: {name: words}, spec: {worker: {template: {}}, config: {"
	const ofRun = "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {replicaSpecs: [{type: worker, template: " +
		"{spec: {containers: [{name: pytorch, command: [python3], args: [/code/train.py, --epochs=9]}]}}}]}}"
	const resumes = `{"op":"test","path":"/metadata/uid","value":""},` +
		`{"op":"add","path":"/spec/runMode/pause/enabled","value":false}]`
	tests := map[string]struct {
		manifest    string
		types, args []string
		wantPatch   string
		wantChanged []string
		wantErr     string
	}{
		"the types with the command line of the leader change": {
			manifest: masterLast, args: []string{"-e"},
			wantPatch: `[{"op":"test","path":"/spec/replicaSpecs/0/type","value":"worker"},` +
				`{"op":"test","path":"/spec/replicaSpecs/0/template/spec/containers/1/name","value":"pytorch"},` +
				`{"op":"add","path":"/spec/replicaSpecs/0/template/spec/containers/1/args","value":["-e"]},` +
				`{"op":"test","path":"/spec/replicaSpecs/1/type","value":"master"},` +
				`{"op":"test","path":"/spec/replicaSpecs/1/template/spec/containers/0/name","value":"first"},` +
				`{"op":"add","path":"/spec/replicaSpecs/1/template/spec/containers/0/args","value":["-e"]},` + resumes,
			wantChanged: []string{"worker", "master"},
		},
		"only the given types change": {
			manifest: masterLast, types: []string{"master"}, args: []string{"-e"},
			wantPatch: `[{"op":"test","path":"/spec/replicaSpecs/1/type","value":"master"},` +
				`{"op":"test","path":"/spec/replicaSpecs/1/template/spec/containers/0/name","value":"first"},` +
				`{"op":"add","path":"/spec/replicaSpecs/1/template/spec/containers/0/args","value":["-e"]},` + resumes,
			wantChanged: []string{"master"},
		},
		"a job without replicaSpecs is an error": {
			manifest: "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {}}", args: []string{"-e"},
			wantErr: "resume cannot change the args of ptjob/digits: change them with kubectl edit while it is paused",
		},
		"an unknown type is an error": {
			manifest: masterLast, types: []string{"chief"}, args: []string{"-e"},
			wantErr: `ptjob/digits has no type "chief": its types are ["master" "worker"]`,
		},
		"the module of a DeepSpeedJob changes": {
			manifest: deepSpeed + "run: {module: [train]}}}}", args: []string{"eval"},
			wantPatch:   `[{"op":"replace","path":"/spec/config/run/module","value":["eval"]},` + resumes,
			wantChanged: []string{"worker"},
		},
		"the program of a DeepSpeedJob changes": {
			manifest: deepSpeed + "run: {exec: [train]}}}}", args: []string{"eval"},
			wantPatch:   `[{"op":"replace","path":"/spec/config/run/exec","value":["eval"]},` + resumes,
			wantChanged: []string{"worker"},
		},
		"resumeSpecs apply only after a pause of a started job": {
			manifest: `{kind: DeepSpeedJob, metadata: {name: words}, spec: {config: {run: {python: [a.py]}}, worker: {template: {}},
				runMode: {pause: {enabled: true, resumeSpecs: [{type: worker, args: [b.py]}]}}}}`,
			args:        []string{"b.py", "-e"},
			wantPatch:   `[{"op":"replace","path":"/spec/config/run/python","value":["b.py","-e"]},` + resumes,
			wantChanged: []string{"worker"},
		},
		"ARGS without the program of the args are an error": {
			manifest: ofRun, args: []string{"--epochs=2"},
			wantErr: "the args of type worker begin with the program: repeat it, as in -- /code/train.py --epochs=2",
		},
		"ARGS without the module of the args are an error": {
			manifest: strings.Replace(ofRun, "/code/train.py", "-m, digits.train", 1), args: []string{"--epochs=2"},
			wantErr: "the args of type worker begin with the program: repeat it, as in -- -m digits.train --epochs=2",
		},
		"ARGS can name another program": {
			manifest: ofRun, args: []string{"-u", "other.py"},
			wantPatch: `[{"op":"test","path":"/spec/replicaSpecs/0/type","value":"worker"},` +
				`{"op":"test","path":"/spec/replicaSpecs/0/template/spec/containers/0/name","value":"pytorch"},` +
				`{"op":"add","path":"/spec/replicaSpecs/0/template/spec/containers/0/args","value":["-u","other.py"]},` + resumes,
			wantChanged: []string{"worker"},
		},
		"ARGS without the program of a DeepSpeedJob are an error": {
			manifest: deepSpeed + "run: {python: [train.py, -a]}}}}", args: []string{"--epochs=2"},
			wantErr: "the args of type worker begin with the program: repeat it, as in -- train.py --epochs=2",
		},
		"ARGS without the module of a DeepSpeedJob are an error": {
			manifest: deepSpeed + "run: {module: [digits.train]}}}}", args: []string{"--epochs=2"},
			wantErr: "the args of type worker begin with the program: repeat it, as in -- digits.train --epochs=2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			patch, changed, err := jobs.ResumeWithArgs(parse(t, test.manifest), test.types, test.args)
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
