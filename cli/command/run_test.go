package command

import (
	"bytes"
	"crypto/rand"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

var update = flag.Bool("update", false, "write the manifests in testdata/run")

// TestRunPrintsManifests compares the manifests that kubectl train run prints with files. In test/train, an API
// server checks the same files.
func TestRunPrintsManifests(t *testing.T) {
	t.Setenv(imageVariable, "example.com/training:1.0")
	t.Setenv("KUBECONFIG", "/nowhere") // printing needs no cluster
	large := t.TempDir()
	weights := make([]byte, 1<<20)
	if _, err := rand.Read(weights); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"train.py": []byte("print()\n"), "weights.bin": weights,
		".gitignore": []byte(".env\n"), ".env": []byte("TOKEN=secret\n"),
	} {
		if err := os.WriteFile(filepath.Join(large, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const digits = "testdata/run/digits"
	for _, test := range []struct {
		name, file, dir string
		args            []string
		program         []string
	}{
		{name: "one process runs with python3", file: "pytorch", dir: digits},
		{name: "several processes run with torchrun", file: "pytorch-torchrun", dir: digits, args: []string{
			"--nodes=2", "--gpus=4", "--cpus=8", "--memory=64Gi", "--queue=research", "--retries=2", "--max-time=12h",
		}, program: []string{"train.py", "--epochs=5"}},
		{name: "an elastic job begins with the least nodes", file: "pytorch-elastic", dir: digits, args: []string{
			"--elastic=2:8", "--gpus=1", "--gpu-resource=amd.com/gpu", "--local-queue=research",
		}, program: []string{"-m", "models.net"}},
		{name: "claims, variables and a TensorBoard are part of the job", file: "pytorch-claims", dir: digits, args: []string{
			"--claim=logs:/logs", "--claim=data:/data:ro", "--claim=logs:/old", "--tensorboard=/logs/runs", "--env=SEED=7",
			"--env-from=wandb", "--run-as-user=1000", "--progress=false",
		}},
		{name: "flags choose the nodes and the credentials of the image", file: "pytorch-nodes", dir: digits, args: []string{
			"--gpus=1", "--toleration=team=vision:NoSchedule", "--toleration=spot", "--node-selector=zone=a",
			"--node-selector=example.com/disk=", "--image-pull-secret=registry", "--image-pull-secret=mirror",
		}},
		{name: "TensorFlow has one process on each node", file: "tensorflow", dir: digits, args: []string{
			"--kind=tensorflow", "--nodes=2", "--gpus=2",
		}},
		{name: "DeepSpeed has a slot for each GPU", file: "deepspeed", dir: digits, args: []string{
			"--kind=dsjob", "--nodes=2", "--gpus=2",
		}, program: []string{"train.py", "--deepspeed"}},
		{name: "the program gets its arguments exactly", file: "deepspeed-words", dir: digits, args: []string{
			"--kind=deepspeed", "--nodes=2", "--env=RUN=7",
		}, program: []string{"train.py", "$HOME", "*", "--x=a;date", "", "it's", "--run=$(RUN)", "$$"}},
		{name: "DeepSpeed runs a module elastically", file: "deepspeed-elastic", dir: digits, args: []string{
			"--kind=DeepSpeed", "--elastic=1:3", "--nodes=2", "--procs=2",
		}, program: []string{"-m", "models.net", "--epochs=5"}},
		{name: "large code goes to a new claim", file: "claim", dir: large},
		{name: "large code for several nodes needs a claim that they share", file: "claim-shared", dir: large, args: []string{
			"--nodes=2", "--storage-class=nfs",
		}},
		{name: "large code can go to an existing claim", file: "claim-existing", dir: large, args: []string{
			"--code-claim=home",
		}},
		{name: "the namespace can choose the group of the volumes", file: "claim-no-group", dir: large, args: []string{
			"--code-claim=home", "--claim=data", "--volume-group=-1",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"run", test.dir, "--name=digits", "--dry-run=client", "-o", "yaml"}, test.args...)
			if test.program == nil {
				test.program = []string{"train.py"}
			}
			out, errOut, err := train(append(append(args, "--"), test.program...)...)
			if err != nil || errOut != "" {
				t.Fatalf("%v; %s", err, errOut)
			}
			got := strings.ReplaceAll(out, large, "/home/user/digits")
			if test.dir == large { // the random weights change the checksum
				got = checksum(got)
			}
			file := filepath.Join("testdata/run", test.file+".yaml")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got), go test ./command -update writes it:\n%s", file, diff)
			}
		})
	}
}

// checksum replaces the checksum of the code in a manifest with zeros.
func checksum(manifest string) string {
	before, after, ok := strings.Cut(manifest, "sha256:")
	if !ok {
		return manifest
	}
	return before + "sha256:" + strings.Repeat("0", 64) + after[64:]
}

func TestRunRejectsFlags(t *testing.T) {
	t.Setenv(imageVariable, "")
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"a program is required", "name a folder, and after -- a program", []string{"testdata/run/digits"}},
		{"a folder is required", "name a folder, and after -- a program", []string{"--", "train.py"}},
		{
			"the program comes after two dashes", "name a folder, and after -- a program",
			[]string{"testdata/run/digits", "train.py"},
		},
		{"the kind does not exist", `--kind: "no-kind" is no job kind`, []string{"--kind=no-kind"}},
		{"the range is wrong", `--elastic: "8" is no range`, []string{"--elastic=8"}},
		{"the quantity is wrong", `--memory: "much" is no quantity`, []string{"--memory=much"}},
		{"the number of CPUs is negative", `--cpus: "-1" is no quantity`, []string{"--cpus=-1"}},
		{"the claim is wrong", `--claim: "a:b:c:d" is not of the form`, []string{"--claim=a:b:c:d"}},
		{"the variable is wrong", `--env: "A" is not`, []string{"--env=A"}},
		{"the group is no ID", "--volume-group: -2 is no group ID: use -1 for none", []string{"--volume-group=-2"}},
		{"root is not allowed", "--run-as-user: 0 is not allowed", []string{"--run-as-user=0"}},
		{"the dry run is unknown", `invalid argument "yes" for "--dry-run" flag: use none, client or server`, []string{"--dry-run=yes"}},
		{"the format is unknown", `invalid argument "wide" for "-o, --output" flag: use yaml, json or name`, []string{"--dry-run=client", "-o", "wide"}},
		{"the objects and the log would mix", "--output: the log of the training goes to stdout", []string{"-o", "yaml"}},
		{"there is no default of the image", "--image is required", []string{"--dry-run=client"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := test.args
			if strings.HasPrefix(args[0], "-") && args[0] != "--" {
				args = append(append([]string{"testdata/run/digits"}, args...), "--", "train.py")
			}
			_, _, err := train(append([]string{"run"}, args...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestRunLeavesCredentialsOut(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"train.py": "", ".env": "TOKEN=secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, err := train("run", dir, "--image=training", "--dry-run=client", "-o", "yaml", "--", "train.py")
	if err != nil {
		t.Fatal(err)
	}
	const want = ".env is left out: it probably has credentials, by its name\n" +
		"To give credentials to the training: kubectl create secret generic NAME --from-env-file=FILE, " +
		"and then kubectl train run --env-from=NAME\n"
	if diff := cmp.Diff(want, errOut); diff != "" || strings.Contains(out, "secret") {
		t.Errorf("the manifest:\n%s\nmessages (-want +got):\n%s", out, diff)
	}
}

// train runs kubectl train. It returns the output to stdout and the output to stderr.
func train(args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs(args)
	err = cmd.Execute()
	return stdout.String(), stderr.String(), err
}

func TestRunWithoutKinds(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	answers := map[string]string{
		"/api":    `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": []}`,
		"/apis":   `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer, ok := answers[r.URL.Path]; ok {
			_, _ = w.Write([]byte(answer))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	args := []string{
		"run", "testdata/run/digits", "--image=a", "--server", server.URL, "--cache-dir", t.TempDir(), "--", "train.py",
	}
	_, problem := runOffline(t, args...)
	const want = "the cluster has no pytorchtrainingjobs: ask an administrator to install its controller"
	if diff := cmp.Diff(want, problem); diff != "" {
		t.Error(diff)
	}
	server.Close()
	args[6] = t.TempDir()
	_, problem = runOffline(t, args...)
	if !strings.HasSuffix(problem, "and whether this is the right context") {
		t.Errorf("the error does not end with the advice about the context: %s", problem)
	}
}
