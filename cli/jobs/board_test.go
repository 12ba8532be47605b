package jobs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/jobs"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

func TestIsBoardReady(t *testing.T) {
	tests := map[string]struct {
		board string
		want  string
	}{
		"a TensorBoard that responds is ready": {
			board: "{status: {conditions: [{type: Ready, status: 'True'}]}}", want: "ready",
		},
		"a TensorBoard that starts is not ready": {
			board: "{status: {conditions: [{type: Ready, status: 'False', reason: ImagePull, message: no image}]}}",
			want:  "waits: the TensorBoard digits is not ready: ImagePull: no image",
		},
		"a TensorBoard that failed does not start by itself": {
			board: "{status: {phase: Failed, conditions: [{type: Ready, status: 'False', reason: NameConflict, message: a}]}}",
			want:  "error: the TensorBoard digits cannot start: NameConflict: a",
		},
		"an older status says nothing": {
			board: "{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}}",
			want:  "waits: the controller has not seen the TensorBoard digits yet",
		},
		"a suspended TensorBoard is not ready": {
			board: "{spec: {suspend: true}, status: {conditions: [{type: Ready, status: 'True'}]}}",
			want:  "error: the TensorBoard digits is suspended: start it again with --resume",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			board := &tensorboardv1beta1.TensorBoard{}
			if err := yaml.UnmarshalStrict([]byte(test.board), board); err != nil {
				t.Fatal(err)
			}
			board.Name = "digits"
			isReady, waitsFor, err := jobs.IsBoardReady(board)
			got := "waits: " + waitsFor
			switch {
			case err != nil:
				got = "error: " + err.Error()
			case isReady:
				got = "ready"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTensorBoardOf(t *testing.T) {
	const spec = "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {tensorboardSpec: {}, replicaSpecs: []}, " +
		"status: {"
	tests := map[string]struct{ manifest, want string }{
		"a new TensorBoard has the name of the job": {manifest: spec + "}}", want: "digits"},
		"the status has the name of the TensorBoard": {
			manifest: spec + "tensorboard: {dependent: {name: board}, ready: false}}}", want: "board",
		},
		"the status explains why there is no TensorBoard": {
			manifest: spec + "tensorboard: {ready: false, type: Warning, reason: NotInstalled, note: no CRD}}}",
			want:     "the TensorBoard of ptjob/digits does not exist: NotInstalled: no CRD",
		},
		"a job can get a TensorBoard": {
			manifest: strings.Replace(spec, "tensorboardSpec: {}, ", "", 1) + "}}",
			want: "ptjob/digits has no TensorBoard: pause the job, add spec.tensorboardSpec with the folder of its logs, " +
				"and resume it",
		},
		"a job that has ended cannot get a TensorBoard": {
			manifest: strings.Replace(spec, "tensorboardSpec: {}, ", "", 1) + "phase: Succeeded}}",
			want: "ptjob/digits has no TensorBoard of its own: create a TensorBoard for the volume with its logs, and " +
				"forward a port to it with kubectl port-forward service/NAME-tb 6006:80",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			key, err := jobs.TensorBoardOf(parse(t, test.manifest))
			got := key.Name
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadTensorBoard(t *testing.T) {
	const status = "status: {tensorboard: {dependent: {name: board}, ready: false}}}"
	owned := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Any", Name: "digits", UID: "1", Controller: new(true)}}
	tests := map[string]struct {
		owners []metav1.OwnerReference
		uid    types.UID
		want   string
	}{
		"the TensorBoard of the job is read":                 {owners: owned, uid: "1", want: "board"},
		"a TensorBoard of an earlier job of the name is not": {owners: owned, uid: "2"},
		"a TensorBoard that a user has created is not":       {uid: "1"},
	}
	scheme, err := jobs.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			job := parse(t, "{kind: PyTorchTrainingJob, metadata: {name: digits}, spec: {replicaSpecs: []}, "+status)
			job.SetUID(test.uid)
			board := &tensorboardv1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Name: "board", OwnerReferences: test.owners}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(board).Build()
			read, err := jobs.ReadTensorBoard(t.Context(), c, job)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if read != nil {
				got = read.Name
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
