package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/jobs"
)

const planned = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: digits}
spec:
  progress: {enabled: true}
  replicaSpecs:
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: training, command: [python3, train.py]}]}}
`

// runPlan runs kubectl train plan without a kubeconfig. It returns the output to stdout and the output to stderr.
func runPlan(t *testing.T, stdin string, args ...string) (out, errOut string, err error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nowhere"))
	var stdout, stderr bytes.Buffer
	cmd := New(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs(append([]string{"plan"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestPlan(t *testing.T) {
	const names = "service/digits\npod/digits-worker-0\npod/digits-worker-1\n"
	for name, tc := range map[string]struct {
		stdin           string
		args            []string
		want            string
		wantOut, errOut string
		wantErr         string
	}{
		"the names of the objects are in the order of creation": {
			stdin: planned, args: []string{"-f", "-", "-o", "name"}, want: names,
		},
		"a NetworkPolicy is created if the installation has them": {
			stdin: planned, args: []string{"-f", "-", "-o", "name", "--network-policies"},
			want: "networkpolicy.networking.k8s.io/digits\n" + names,
		},
		"only one pod is printed": {
			stdin: planned, args: []string{"-f", "-", "-o", "name", "--replica", "digits-worker-1"},
			want: "pod/digits-worker-1\n",
		},
		"the summary of one pod is printed": {
			stdin: planned, args: []string{"-f", "-", "--replica", "digits-worker-1", "--controller-image", "mine:v2"},
			wantOut: "wait-for-peers, image mine:v2",
		},
		"a pod that no job has is an error": {
			stdin: planned, args: []string{"-f", "-", "--replica", "digits-worker-2"},
			wantErr: `no job has a pod "digits-worker-2": kubectl train plan -o name prints the names of the pods`,
		},
		"the namespace of the flag applies": {
			stdin: planned, args: []string{"-f", "-", "-n", "team"},
			wantOut: "MASTER_ADDR=digits-worker-0.digits.team.svc.cluster.local",
		},
		"a manifest with another namespace is an error, as for kubectl": {
			stdin: strings.Replace(planned, "{name: digits}", "{name: digits, namespace: other}", 1),
			args:  []string{"-f", "-", "-n", "team"},
			wantErr: `standard input: the namespace from the provided object "other" does not match the namespace "team". ` +
				`You must pass '--namespace=other' to perform this operation`,
		},
		"other objects are ignored": {
			stdin: "kind: ConfigMap\nmetadata: {name: code}\n---" + planned, args: []string{"-f", "-", "-o", "name"},
			want:   names,
			errOut: `standard input, document 1: ignored, since ConfigMap "code" is no job` + "\n",
		},
		"a kind with control characters is printed without them": {
			stdin: `kind: "a\e[2Jb"` + "\nmetadata: {name: code}\n---" + planned, args: []string{"-f", "-", "-o", "name"},
			want:   names,
			errOut: `standard input, document 1: ignored, since a\x1b[2Jb "code" is no job` + "\n",
		},
		"the plans of valid jobs are printed although another job is invalid": {
			stdin: strings.Replace(planned, "replicas", "relpicas", 1) + "---" + planned,
			args:  []string{"-f", "-", "-o", "name"}, want: names,
			wantErr: `standard input, document 1: PyTorchTrainingJob in version "v1beta1" cannot be handled as a ` +
				`PyTorchTrainingJob: strict decoding error: unknown field "spec.replicaSpecs[0].relpicas"`,
		},
		"a job that cannot start is an error, with the summary of its objects": {
			stdin: strings.Replace(planned, "{name: pytorch", "{name: wait-for-peers, image: x}, {name: pytorch", 1),
			args:  []string{"-f", "-", "-o", "name"}, want: "service/digits\n",
			wantErr: `standard input: the controller creates no pods of ptjob/digits: InvalidTemplate: the template of type ` +
				`"worker" has a container named "wait-for-peers", which is reserved`,
		},
		"a version that the API does not have is an error": {
			stdin: strings.Replace(planned, "v1beta1", "v1", 1), args: []string{"-f", "-"},
			wantErr: `standard input: no matches for kind "PyTorchTrainingJob" in version "batch.tensorstack.dev/v1"`,
		},
		"files without a job are an error": {
			stdin: "kind: ConfigMap", args: []string{"-f", "-"},
			errOut: `standard input: ignored, since ConfigMap "" is no job` + "\n",
			wantErr: "the files have no job: a job has the apiVersion batch.tensorstack.dev/v1beta1 and one of the kinds " +
				jobs.Described(),
		},
		"an unknown output format is an error": {
			args:    []string{"-f", "-", "-o", "wide"},
			wantErr: `invalid argument "wide" for "-o, --output" flag: use name, json or yaml`,
		},
		"a setting of NetworkPolicies needs NetworkPolicies": {
			args:    []string{"-f", "-", "--network-policy-allow-namespaces", "a=b"},
			wantErr: "--network-policy-allow-namespaces has no effect without --network-policies: set both, or neither",
		},
		"a file is required": {wantErr: "plan needs a manifest: add -f FILE, or -f - for stdin"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := runPlan(t, tc.stdin, tc.args...)
			if tc.wantOut != "" && strings.Contains(out, tc.wantOut) {
				tc.want = out
			}
			if diff := cmp.Diff(tc.want, out); diff != "" {
				t.Errorf("unexpected output, want it to contain %q (-want +got):\n%s", tc.wantOut, diff)
			}
			if diff := cmp.Diff(tc.errOut, errOut); diff != "" {
				t.Errorf("unexpected errors (-want +got):\n%s", diff)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, got); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanPrintsObjectsWithoutRandomValues(t *testing.T) {
	out, _, err := runPlan(t, planned, "-f", "-", "--replica", "digits-worker-0", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pod map[string]any
	if err := yaml.UnmarshalStrict([]byte(out), &pod); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"v1", "Pod", nil}, []any{pod["apiVersion"], pod["kind"], pod["status"]}); diff != "" {
		t.Errorf("unexpected pod (-want +got):\n%s", diff)
	}
	if !strings.Contains(out, "batch.tensorstack.dev/progress-token: (random)") {
		t.Errorf("the token is not left out:\n%s", out)
	}
}

func TestPlanPrintsJSONInAList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(planned), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := runPlan(t, "", "-f", path, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Kind  string
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	kinds := []string{list.Kind}
	for _, item := range list.Items {
		kinds = append(kinds, item.Kind)
	}
	if diff := cmp.Diff([]string{"List", "Service", "Pod", "Pod"}, kinds); diff != "" {
		t.Errorf("unexpected kinds (-want +got):\n%s", diff)
	}
}
