package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"tensorstack.dev/jobs/cli/installed"
	"tensorstack.dev/jobs/common/version"
)

func TestWarningsOf(t *testing.T) {
	t.Parallel()
	const v1beta1 = "batch.tensorstack.dev/v1beta1"
	running := func(version string) []installed.Deployment {
		return []installed.Deployment{{Namespace: "t9k-pytorch", Version: version}}
	}
	served := []installed.Kind{{APIVersion: v1beta1, Kind: "PyTorchTrainingJob", Served: []string{v1beta1}}}
	for name, tc := range map[string]struct {
		controller installed.Controller
		want       []string
	}{
		"the tested version gives no warning": {
			controller: installed.Controller{TestedVersion: "v0.2.0", Kinds: served, Deployments: running("v0.2.0")},
		},
		"a patch of the tested version gives no warning": {
			controller: installed.Controller{TestedVersion: "v0.2.0", Kinds: served, Deployments: running("v0.2.7")},
		},
		"a newer minor version needs a newer client": {
			controller: installed.Controller{TestedVersion: "v0.2.0", Kinds: served, Deployments: running("v0.3.0")},
			want: []string{"pytorch-controller in namespace t9k-pytorch has version v0.3.0, and kubectl train was tested with " +
				"v0.2.0: install a newer kubectl train"},
		},
		"an older minor version needs a newer controller": {
			controller: installed.Controller{TestedVersion: "v1.2.0", Kinds: served, Deployments: running("v0.9.0")},
			want: []string{"pytorch-controller in namespace t9k-pytorch has version v0.9.0, and kubectl train was tested with " +
				"v1.2.0: ask an administrator of the cluster to upgrade the controller"},
		},
		"a controller in other namespaces gives a warning": {
			controller: installed.Controller{
				TestedVersion: "v0.2.0", Kinds: served,
				Deployments: append(running("v0.2.0"), installed.Deployment{Namespace: "team-a", Version: "v0.2.0"}),
			},
			want: []string{"pytorch-controller is also in other namespaces than t9k-pytorch: team-a. Other users can have " +
				"created it there"},
		},
		"a tag that is no version gives no warning": {
			controller: installed.Controller{TestedVersion: "v0.2.0", Kinds: served, Deployments: running("latest")},
		},
		"a client that was built in a working copy gives no warning": {
			controller: installed.Controller{Kinds: served, Deployments: running("v0.3.0")},
		},
		"a kind that is not installed gives no warning": {
			controller: installed.Controller{Kinds: []installed.Kind{{APIVersion: v1beta1, Kind: "PyTorchTrainingJob"}}},
		},
		"a kind in other API versions needs another client": {
			controller: installed.Controller{Kinds: []installed.Kind{
				{APIVersion: v1beta1, Kind: "PyTorchTrainingJob", Served: []string{"batch.tensorstack.dev/v1"}},
			}},
			want: []string{"the cluster has PyTorchTrainingJob only in batch.tensorstack.dev/v1, and kubectl train needs " +
				v1beta1 + ": install another version of kubectl train"},
		},
		"missing fields are named, but not all of many": {
			controller: installed.Controller{Kinds: []installed.Kind{{
				APIVersion: v1beta1, Kind: "PyTorchTrainingJob", Served: []string{v1beta1},
				MissingFields: []string{"spec.a", "spec.b", "spec.c", "spec.d", "spec.e", "spec.f", "spec.g"},
			}}},
			want: []string{"PyTorchTrainingJob lacks fields that kubectl train knows: spec.a, spec.b, spec.c, spec.d, spec.e " +
				"and 2 more. They have no effect until an administrator of the cluster upgrades the CRD of the pytorch-controller"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.controller.Name = "pytorch-controller"
			if diff := cmp.Diff(tc.want, warningsOf(tc.controller)); diff != "" {
				t.Errorf("unexpected warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersionsArePrintedAsATable(t *testing.T) {
	t.Parallel()
	controller := func(name, kind string, served bool, deployments ...installed.Deployment) installed.Controller {
		c := installed.Controller{Name: name, Kinds: []installed.Kind{{Kind: kind}}, Deployments: deployments}
		if served {
			c.Kinds[0].Served = []string{"v1beta1"}
		}
		return c
	}
	found := versions{
		ClientVersion: version.Build{Version: "v0.2.0", Revision: "1cc8f15", GoVersion: "1.26.8"},
		ServerVersion: &apimachineryversion.Info{GitVersion: "v1.37.1"},
		Controllers: []installed.Controller{
			controller("pytorch-controller", "PyTorchTrainingJob", true,
				installed.Deployment{Namespace: "t9k-pytorch", Version: "v0.1.0"}, installed.Deployment{Namespace: "team-a"}),
			controller("tensorflow-controller", "TensorFlowTrainingJob", false),
			controller("tensorboard-controller", "TensorBoard", true),
		},
	}
	for name, tc := range map[string]struct{ unknown, want, wantError string }{
		"an administrator sees which controllers do not run": {
			want: `Client Version: v0.2.0 (revision 1cc8f15, Go 1.26.8)
Kubernetes Version: v1.37.1

CONTROLLER               VERSION         NAMESPACE     KINDS
pytorch-controller       v0.1.0          t9k-pytorch   PyTorchTrainingJob
pytorch-controller       unknown         team-a        PyTorchTrainingJob
tensorflow-controller    not installed   -             -
tensorboard-controller   not running     -             TensorBoard
`,
		},
		"a user sees which versions are unknown": {
			unknown: "you may not read them", wantError: "Some versions are unknown: you may not read them\n",
			want: `Client Version: v0.2.0 (revision 1cc8f15, Go 1.26.8)
Kubernetes Version: v1.37.1

CONTROLLER               VERSION         NAMESPACE     KINDS
pytorch-controller       v0.1.0          t9k-pytorch   PyTorchTrainingJob
pytorch-controller       unknown         team-a        PyTorchTrainingJob
tensorflow-controller    not installed   -             -
tensorboard-controller   unknown         -             TensorBoard
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := found
			v.Unknown = tc.unknown
			var out, errOut bytes.Buffer
			if err := v.print(&out, &errOut, ""); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantError, errOut.String()); diff != "" {
				t.Errorf("unexpected output to stderr (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutCluster runs kubectl train without a cluster: nothing listens at port 1.
func withoutCluster(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	streams, _, stdout, _ := genericiooptions.NewTestIOStreams()
	cmd := New(streams)
	cmd.SetArgs(append([]string{"--kubeconfig=", "--server=http://127.0.0.1:1"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), err
}

func TestVersionWithoutACluster(t *testing.T) {
	t.Parallel()
	own := version.Own()
	text := "Client Version: " + own.String() + "\n"
	for name, tc := range map[string]struct {
		args            []string
		want, wantError string
	}{
		"--client needs no cluster": {args: []string{"--client"}, want: text},
		"the client's version is printed although the cluster cannot be reached": {
			want: text, wantError: "kubectl train version --client prints only the version of kubectl train",
		},
		"the client's version is printed as YAML": {
			args: []string{"-o", "yaml"}, wantError: "connection refused",
			want: "clientVersion:\n  goVersion: " + own.GoVersion + "\n  revision: " + own.Revision +
				"\n  version: " + own.Version + "\n",
		},
		"an unknown output format is rejected": {args: []string{"-o", "wide"}, wantError: `invalid argument "wide" for "-o, --output" flag: use json or yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := withoutCluster(t, append([]string{"version"}, tc.args...)...)
			if diff := cmp.Diff(tc.want, out); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
			if tc.wantError == "" {
				if err != nil {
					t.Errorf("got the error %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.wantError) || ExitCode(err) != exitError {
				t.Errorf("got the error %v, want %q", err, tc.wantError)
			}
		})
	}
}
